"""sub, rsub, mul, lerp, addcmul and addcdiv with a scalar, in half precision.

ATen rounds only the result. TorchAir also rounds the products of sub and rsub, and the scalars of the others to the
dtype of the tensors. Where half precision cannot represent the scalar, these are computed in float32 here.
"""

from __future__ import annotations

from typing import Any

import torch
from graph_quant.converters import UPSTREAM
from graph_quant.converters.aten.precision import in_float32, is_number, is_rounded
from graph_quant.converters.lowering import converts, in_type
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import Tensor

aten = torch.ops.aten


@converts(aten.sub.Tensor, aten.sub.Scalar)
def sub(x: Any, other: Any, alpha: Any = 1, meta_outputs: Any = None) -> Tensor:
    """Sub; with alpha, AxpyV2 of -alpha, so that the product is not rounded before the subtraction."""
    if not isinstance(alpha, Tensor) and alpha == 1:
        return ge.Sub(*in_type(meta_outputs.dtype, x, other))
    minus = ge.Neg(alpha) if isinstance(alpha, Tensor) else -alpha
    return ge.AxpyV2(*in_type(meta_outputs.dtype, x, other, minus))


@converts(aten.rsub.Tensor)
def rsub(x: Any, other: Any, *, alpha: Any = 1, meta_outputs: Any = None) -> Tensor:
    """Sub with its operands exchanged: TorchAir rounds the product with alpha before the subtraction."""
    return sub(other, x, alpha, meta_outputs)


@converts(aten.mul.Scalar)
def mul(x: Tensor, number: Any, meta_outputs: Any = None) -> Tensor:
    """Mul."""
    if is_rounded(number, meta_outputs.dtype):
        return in_float32(ge.Mul, meta_outputs.dtype, x, number)
    return ge.Mul(*in_type(meta_outputs.dtype, x, number))


@converts(aten.mul.Tensor)
def product(x: Any, other: Any, meta_outputs: Any = None) -> Tensor:
    """Mul. A second operand without dimensions is a scalar, which may have a wider dtype or be symbolic."""
    if is_number(other) and is_rounded(other, meta_outputs.dtype):
        return in_float32(ge.Mul, meta_outputs.dtype, x, other)
    return UPSTREAM[aten.mul.Tensor](x, other, meta_outputs=meta_outputs._meta)  # type: ignore[no-any-return]


@converts(aten.lerp.Scalar, aten.lerp.Tensor)
def lerp(x: Tensor, end: Tensor, weight: Any, meta_outputs: Any = None) -> Tensor:
    """Lerp."""
    if not (isinstance(weight, Tensor) and not is_number(weight)) and is_rounded(weight, meta_outputs.dtype):
        return in_float32(ge.Lerp, meta_outputs.dtype, x, end, weight)
    return ge.Lerp(*in_type(meta_outputs.dtype, x, end, weight))


@converts(aten.addcmul.default)
def addcmul(x: Tensor, one: Tensor, other: Tensor, *, value: Any = 1, meta_outputs: Any = None) -> Tensor:
    """Addcmul."""
    if is_rounded(value, meta_outputs.dtype):
        return in_float32(ge.Addcmul, meta_outputs.dtype, x, one, other, value)
    return ge.Addcmul(*in_type(meta_outputs.dtype, x, one, other, value))


@converts(aten.addcdiv.default)
def addcdiv(x: Tensor, one: Tensor, other: Tensor, *, value: Any = 1, meta_outputs: Any = None) -> Tensor:
    """Addcdiv."""
    if is_rounded(value, meta_outputs.dtype):
        return in_float32(ge.Addcdiv, meta_outputs.dtype, x, one, other, value)
    return ge.Addcdiv(*in_type(meta_outputs.dtype, x, one, other, value))
