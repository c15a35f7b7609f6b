"""Products with a number that are added to a tensor, in half precision.

ATen rounds the sum alone. TorchAir rounds the product of sub before, and the number of addcmul and addcdiv to the
tensors' type; where half precision has no such number, these are computed in float32 here.
"""

from __future__ import annotations

from typing import Any

import torch
from graph_quant.converters import UPSTREAM
from graph_quant.converters.lowering import converts, in_type
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import DataType, Tensor

aten = torch.ops.aten
_HALVES = {DataType.DT_FLOAT16: torch.float16, DataType.DT_BF16: torch.bfloat16}


def _is_rounded(number: Any, dtype: Any) -> bool:
    """Whether half precision has no such number."""
    if isinstance(number, Tensor) or dtype not in _HALVES:
        return False
    return torch.tensor(float(number), dtype=_HALVES[dtype]).item() != float(number)


def _in_float32(make: Any, dtype: Any, *values: Any) -> Tensor:
    return ge.Cast(make(*in_type(DataType.DT_FLOAT, *values)), dst_type=dtype)


@converts(aten.sub.Tensor, aten.sub.Scalar)
def sub(x: Any, other: Any, alpha: Any = 1, meta_outputs: Any = None) -> Tensor:
    """Sub; with a factor AxpyV2 of its negative, so that the product is not rounded before it is taken away."""
    if not isinstance(alpha, Tensor) and alpha == 1:
        return ge.Sub(*in_type(meta_outputs.dtype, x, other))
    minus = ge.Neg(alpha) if isinstance(alpha, Tensor) else -alpha
    return ge.AxpyV2(*in_type(meta_outputs.dtype, x, other, minus))


@converts(aten.addcmul.default)
def addcmul(x: Tensor, one: Tensor, other: Tensor, *, value: Any = 1, meta_outputs: Any = None) -> Any:
    """Addcmul."""
    if _is_rounded(value, meta_outputs.dtype):
        return _in_float32(ge.Addcmul, meta_outputs.dtype, x, one, other, value)
    return UPSTREAM[aten.addcmul.default](x, one, other, value=value, meta_outputs=meta_outputs)


@converts(aten.addcdiv.default)
def addcdiv(x: Tensor, one: Tensor, other: Tensor, *, value: Any = 1, meta_outputs: Any = None) -> Any:
    """Addcdiv."""
    if _is_rounded(value, meta_outputs.dtype):
        return _in_float32(ge.Addcdiv, meta_outputs.dtype, x, one, other, value)
    return UPSTREAM[aten.addcdiv.default](x, one, other, value=value, meta_outputs=meta_outputs)
