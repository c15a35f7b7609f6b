"""Weight-only quantisation: W8A16 and W4A16. Weights are dequantised in the product, activations stay floats."""

from __future__ import annotations

from typing import ClassVar

import torch
from graph_quant.destination import INT4, INT8, Destination
from graph_quant.nn import schemes
from graph_quant.nn.rows import as_rows, check_half, like_input
from torch import Tensor, nn
from typing_extensions import Self

_GROUP_UNIT = 32


class WeightOnlyLinear(nn.Module):
    """A linear with integer weights and float activations: ``y = x @ dequantise(weight) + bias``.

    npu_weight_quant_batchmatmul does not take an empty x.

    Args:
        weight: int8 (k, n), or int4 as int32 (k, n/8).
        scale: (n,), or (⌈k / group_size⌉, n), in the dtype of x.
        bias: (n,) or None; float16 for float16, float32 for bfloat16.
        group_size: How many input channels share a scale; None if all do.
    """

    destination: ClassVar[Destination]

    def __init__(self, weight: Tensor, scale: Tensor, bias: Tensor | None, group_size: int | None) -> None:
        super().__init__()
        self.weight: Tensor
        self.scale: Tensor
        self.bias: Tensor | None
        for name, tensor in {"weight": weight, "scale": scale, "bias": bias}.items():
            self.register_buffer(name, tensor)
        self.group_size = group_size

    @classmethod
    def from_float(cls, linear: nn.Linear, group_size: int | None = None) -> Self:
        """Quantise a linear.

        Args:
            linear: A linear with float16 or bfloat16 weights.
            group_size: How many input channels share a scale, a multiple of 32; None for one scale for each
                output channel.

        Returns:
            The quantised linear.

        Raises:
            TypeError: The weight is neither float16 nor bfloat16.
            ValueError: The sizes do not fit the kernel, or ``group_size`` does not fit them.
        """
        dtype = check_half(cls.__name__, "linear.weight", linear.weight.dtype)
        length = schemes.resolve_group_size(cls.__name__, linear.weight, group_size)
        if length is not None and length % _GROUP_UNIT:
            raise ValueError(f"{cls.__name__}: group_size must be a multiple of {_GROUP_UNIT}, got {length}")
        weight = schemes.weight_only(cls.__name__, linear.weight, cls.destination, length)
        bias = None if linear.bias is None else linear.bias.detach()
        if bias is not None:
            bias = bias.to(torch.float16 if dtype == torch.float16 else torch.float32, copy=True)
        return cls(*weight, bias, length)

    def forward(self, x: Tensor) -> Tensor:
        """Dequantise the weight, and multiply.

        Args:
            x: float16 or bfloat16 (…, k).

        Returns:
            The product (…, n), in the dtype of ``x``.
        """
        y = torch.ops.npu.npu_weight_quant_batchmatmul(
            as_rows(x), self.weight, self.scale, bias=self.bias, antiquant_group_size=self.group_size or 0
        )
        return like_input(y, x)

    def extra_repr(self) -> str:
        """Return the text that ``print(model)`` shows."""
        return (
            f"in_features={self.weight.size(0)}, out_features={self.scale.size(-1)}, "
            f"bias={self.bias is not None}, group_size={self.group_size}"
        )


class W8A16Linear(WeightOnlyLinear):
    """A linear with int8 weights (k, n) and float activations.

    See ``from_float`` for its arguments.

    Examples:
        >>> W8A16Linear.from_float(nn.Linear(64, 128).half().npu())
        W8A16Linear(in_features=64, out_features=128, bias=True, group_size=None)
    """

    destination = INT8


class W4A16Linear(WeightOnlyLinear):
    """A linear with int4 weights, as int32 (k, n/8), and float activations; n must be a multiple of 8.

    See ``from_float`` for its arguments.

    Examples:
        >>> W4A16Linear.from_float(nn.Linear(64, 128).half().npu(), group_size=32)
        W4A16Linear(in_features=64, out_features=128, bias=True, group_size=32)
    """

    destination = INT4
