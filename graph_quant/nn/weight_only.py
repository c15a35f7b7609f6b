"""Integer weights that are restored for each product; activations stay as they are: W8A16 and W4A16."""

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
    """``y = x @ restore(weight) + bias``; x is float16 or bfloat16 (…, k), y the same (…, n).

    Buffers: ``weight``, ``scale`` (n,), or (⌈k / group_size⌉, n) with a scale for each group, in the dtype of x, and
    ``bias`` (n,) or None, float16 for float16 and float32 for bfloat16. npu_weight_quant_batchmatmul takes no empty x.
    """

    destination: ClassVar[Destination]

    def __init__(self, weight: Tensor, scale: Tensor, bias: Tensor | None, group_size: int | None) -> None:
        super().__init__()
        self.weight: Tensor
        self.scale: Tensor
        self.bias: Tensor | None
        self.register_buffer("weight", weight)
        self.register_buffer("scale", scale)
        self.register_buffer("bias", bias)
        self.group_size = group_size

    @classmethod
    def from_float(cls, linear: nn.Linear, group_size: int | None = None) -> Self:
        """Quantises the weight, with a scale for each output channel or for each ``group_size`` of its inputs."""
        dtype = check_half(cls.__name__, "linear.weight", linear.weight.dtype)
        length = schemes.stretch_length(cls.__name__, linear.weight, group_size)
        if length is not None and length % _GROUP_UNIT:
            raise ValueError(f"{cls.__name__}: group_size must be a multiple of {_GROUP_UNIT}, got {length}")
        weight = schemes.weight_only(cls.__name__, linear.weight, cls.destination, length)
        bias = None if linear.bias is None else linear.bias.detach()
        if bias is not None:
            bias = bias.to(torch.float16 if dtype == torch.float16 else torch.float32, copy=True)
        return cls(*weight, bias, length)

    def forward(self, x: Tensor) -> Tensor:
        """Restores the weight and multiplies."""
        y = torch.ops.npu.npu_weight_quant_batchmatmul(
            as_rows(x), self.weight, self.scale, bias=self.bias, antiquant_group_size=self.group_size or 0
        )
        return like_input(y, x)

    def extra_repr(self) -> str:
        """What printing a model shows."""
        return (
            f"in_features={self.weight.size(0)}, out_features={self.scale.size(-1)}, "
            f"bias={self.bias is not None}, group_size={self.group_size}"
        )


class W8A16Linear(WeightOnlyLinear):
    """``weight`` is int8 (k, n)."""

    destination = INT8


class W4A16Linear(WeightOnlyLinear):
    """``weight`` is int4, as int32 (k, n/8): n must be a multiple of 8."""

    destination = INT4
