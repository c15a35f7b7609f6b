"""Bit shifts of integers, for which TorchAir has no converter.

For negative shifts, and shifts by more than the bits of the dtype, ATen and the node differ; both leave it undefined.
"""

from __future__ import annotations

from typing import Any

import torch
from graph_quant.converters.lowering import computed, converts
from torchair.ge._ge_graph import Tensor

aten = torch.ops.aten


@converts(
    aten.__lshift__.Scalar,
    aten.__lshift__.Tensor,
    aten.bitwise_left_shift.Scalar_Tensor,
    aten.bitwise_left_shift.Tensor,
    aten.bitwise_left_shift.Tensor_Scalar,
)
def left_shift(x: Any, other: Any, meta_outputs: Any = None) -> Tensor:
    """LeftShift."""
    return computed("LeftShift", meta_outputs.dtype, x, other)


@converts(
    aten.__rshift__.Scalar,
    aten.__rshift__.Tensor,
    aten.bitwise_right_shift.Scalar_Tensor,
    aten.bitwise_right_shift.Tensor,
    aten.bitwise_right_shift.Tensor_Scalar,
)
def right_shift(x: Any, other: Any, meta_outputs: Any = None) -> Tensor:
    """RightShift, which keeps the sign."""
    return computed("RightShift", meta_outputs.dtype, x, other)
