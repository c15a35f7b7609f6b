"""A quantised linear layer: weights, the exact result, and the error bound of a method."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

TOKENS, INPUTS, OUTPUTS, EXPERTS = 6, 64, 128, 3
COUNTS = (3, 0, 3)
# A power of two, whose reciprocal is exact.
INPUT_SCALE, INPUT_OFFSET = 2.0**-5, 3
# Results are rounded to bfloat16, and partial sums may be.
ROUNDING = 2.0**-7


@dataclass(frozen=True)
class Layer:
    """The output of a method, the exact result, and the error bound."""

    output: Tensor
    wanted: Tensor
    bound: Tensor


@dataclass(frozen=True)
class Weights:
    """Integers with a scale for each output, and a leading expert dimension if there are experts."""

    integers: Tensor
    scale: Tensor

    @classmethod
    def random(cls, bits: int, *leading: int, outputs: int = OUTPUTS, inputs: int = INPUTS) -> Weights:
        """Return random integers without the lowest value, and scales that are exact in bfloat16."""
        high = 2 ** (bits - 1)
        shape = (*leading, outputs)
        integers = torch.randint(1 - high, high, (*shape, inputs), dtype=torch.int8)
        return cls(integers, (torch.rand(*shape, 1) / high + 0.5 / high).bfloat16())

    @property
    def dequantised(self) -> Tensor:
        """The dequantised weights."""
        return self.integers.double() * self.scale.double()

    def parameters(self) -> dict[str, Tensor]:
        """Return the tensors that a checkpoint stores of a linear."""
        return {
            "weight": self.integers,
            "weight_scale": self.scale,
            "weight_offset": torch.zeros_like(self.scale),
        }

    def static_parameters(self, offset_dtype: torch.dtype) -> dict[str, Tensor]:
        """Return the same with a scale and offset of the inputs, and the tensors derived from them."""
        return {
            **self.parameters(),
            "input_scale": torch.tensor([INPUT_SCALE], dtype=torch.bfloat16),
            "input_offset": torch.tensor([INPUT_OFFSET], dtype=offset_dtype),
            "deq_scale": (self.scale.float() * INPUT_SCALE).flatten(),
            "quant_bias": -INPUT_OFFSET * self.integers.sum(1, dtype=torch.int32),
        }

    def packed(self) -> Tensor:
        """Return int4, two outputs to a byte."""
        low, high = self.integers[..., 0::2, :] & 0xF, self.integers[..., 1::2, :] << 4
        return (low | high).contiguous()


def pack_eight_int4(integers: Tensor) -> Tensor:
    """Pack eight inputs into an int32, each with an offset of 8, as compressed-tensors does."""
    shifts = torch.arange(0, 32, 4)
    packed = ((integers.long() + 8).unflatten(-1, (-1, 8)) << shifts).sum(-1)
    return (packed - ((packed >> 31) << 32)).to(torch.int32)


def tokens(inputs: int = INPUTS) -> Tensor:
    """Return random activations."""
    return torch.randn(TOKENS, inputs).bfloat16()


def module(**tensors: Tensor) -> nn.Module:
    """Return a layer with these parameters on the NPU."""
    layer = nn.Module()
    for name, value in tensors.items():
        layer.register_parameter(name, nn.Parameter(value.npu(), requires_grad=False))
    return layer


def compare_linear(output: Tensor, x: Tensor, weights: Weights, step: Tensor | float | None) -> Layer:
    """Return the comparison of a linear; ``step`` is the quantisation step of the activations, None for floats."""
    wide = x.double()
    dequantised = weights.dequantised
    if dequantised.dim() == 3:
        dequantised = torch.repeat_interleave(dequantised, torch.tensor(COUNTS), dim=0)
        wanted, added = _rows(wide, dequantised), _rows(wide.abs(), dequantised.abs())
    else:
        wanted, added = wide @ dequantised.T, wide.abs() @ dequantised.abs().T
    reach = dequantised.abs().sum(-1)
    bound = added * ROUNDING if step is None else added * ROUNDING + 0.5 * step * reach
    return Layer(output, wanted, bound)


def _rows(x: Tensor, weights: Tensor) -> Tensor:
    return torch.einsum("tk,tnk->tn", x, weights)


def quantisation_step(x: Tensor, bits: int) -> Tensor:
    """Return the quantisation step of each token, which maps its absmax to the largest integer."""
    return x.double().abs().amax(-1, keepdim=True) / (2 ** (bits - 1) - 1)
