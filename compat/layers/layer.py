"""A quantised layer by hand: weights, what they mean, and what a method may be off by."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

TOKENS, INPUTS, OUTPUTS, EXPERTS = 6, 64, 128, 3
COUNTS = (3, 0, 3)
# A power of two, whose reciprocal is exact.
INPUT_SCALE, INPUT_OFFSET = 2.0**-5, 3
# A result is rounded to bfloat16, and so may be what it is added up from.
ROUNDING = 2.0**-7


@dataclass(frozen=True)
class Layer:
    """What a method computed, what the weights mean, and how far the two may be apart."""

    output: Tensor
    wanted: Tensor
    bound: Tensor


@dataclass(frozen=True)
class Weights:
    """Integers with a scale for each output; experts come first where there are any."""

    integers: Tensor
    scale: Tensor

    @classmethod
    def random(cls, bits: int, *leading: int, outputs: int = OUTPUTS, inputs: int = INPUTS) -> Weights:
        """Integers of all values but the lowest, scales that bfloat16 holds."""
        high = 2 ** (bits - 1)
        shape = (*leading, outputs)
        integers = torch.randint(1 - high, high, (*shape, inputs), dtype=torch.int8)
        return cls(integers, (torch.rand(*shape, 1) / high + 0.5 / high).bfloat16())

    @property
    def meant(self) -> Tensor:
        """The weights as numbers."""
        return self.integers.double() * self.scale.double()

    def parameters(self) -> dict[str, Tensor]:
        """What checkpoints store of a linear."""
        return {
            "weight": self.integers,
            "weight_scale": self.scale,
            "weight_offset": torch.zeros_like(self.scale),
        }

    def static_parameters(self, offset_dtype: torch.dtype) -> dict[str, Tensor]:
        """The same with a scale and an offset of inputs, and what follows from them."""
        return {
            **self.parameters(),
            "input_scale": torch.tensor([INPUT_SCALE], dtype=torch.bfloat16),
            "input_offset": torch.tensor([INPUT_OFFSET], dtype=offset_dtype),
            "deq_scale": (self.scale.float() * INPUT_SCALE).flatten(),
            "quant_bias": -INPUT_OFFSET * self.integers.sum(1, dtype=torch.int32),
        }

    def packed(self) -> Tensor:
        """int4, two outputs to a byte."""
        low, high = self.integers[..., 0::2, :] & 0xF, self.integers[..., 1::2, :] << 4
        return (low | high).contiguous()


def eights(integers: Tensor) -> Tensor:
    """Eight inputs to an int32, each 8 above its value, as compressed-tensors packs them."""
    shifts = torch.arange(0, 32, 4)
    packed = ((integers.long() + 8).unflatten(-1, (-1, 8)) << shifts).sum(-1)
    return (packed - ((packed >> 31) << 32)).to(torch.int32)


def tokens(inputs: int = INPUTS) -> Tensor:
    """Activations."""
    return torch.randn(TOKENS, inputs).bfloat16()


def module(**tensors: Tensor) -> nn.Module:
    """A layer with these parameters on the NPU."""
    made = nn.Module()
    for name, value in tensors.items():
        made.register_parameter(name, nn.Parameter(value.npu(), requires_grad=False))
    return made


def judged(output: Tensor, x: Tensor, weights: Weights, step: Tensor | float | None) -> Layer:
    """``step`` is the distance of neighbours among quantised activations, None where they are not quantised."""
    wide = x.double()
    meant = weights.meant
    if meant.dim() == 3:
        meant = torch.repeat_interleave(meant, torch.tensor(COUNTS), dim=0)
        wanted, added = _rows(wide, meant), _rows(wide.abs(), meant.abs())
    else:
        wanted, added = wide @ meant.T, wide.abs() @ meant.abs().T
    reach = meant.abs().sum(-1)
    bound = added * ROUNDING if step is None else added * ROUNDING + 0.5 * step * reach
    return Layer(output, wanted, bound)


def _rows(x: Tensor, weights: Tensor) -> Tensor:
    return torch.einsum("tk,tnk->tn", x, weights)


def step_of(x: Tensor, bits: int) -> Tensor:
    """The step of each token where its largest magnitude becomes the largest integer."""
    return x.double().abs().amax(-1, keepdim=True) / (2 ** (bits - 1) - 1)
