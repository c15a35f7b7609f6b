"""Arithmetic and logic of elements that TorchAir has no converter for."""

from __future__ import annotations

import math
from typing import Any

import torch
from graph_quant.converters.lowering import computed, converts, in_type, shape_of, taken_in
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import DataType, Tensor

aten = torch.ops.aten
_FLOATS = (DataType.DT_FLOAT, DataType.DT_FLOAT16, DataType.DT_BF16, DataType.DT_DOUBLE)


@converts(aten.isnan.default)
def isnan(x: Tensor, meta_outputs: Any = None) -> Tensor:  # noqa: ARG001
    """IsNan; False for integers."""
    if x.dtype not in _FLOATS:
        return ge.Fill(shape_of(x), ge.Const(False, dtype=DataType.DT_BOOL))
    return ge.IsNan(in_type(taken_in("IsNan", x.dtype), x))


@converts(aten.trunc.default)
def trunc(x: Tensor, meta_outputs: Any = None) -> Tensor:  # noqa: ARG001
    """Trunc; the identity for integers."""
    return ge.Trunc(x) if x.dtype in _FLOATS else ge.Identity(x)


@converts(aten.atan2.default)
def atan2(x: Tensor, other: Tensor, meta_outputs: Any = None) -> Tensor:
    """Atan2 in the type of the result."""
    return ge.Atan2(*in_type(meta_outputs.dtype, x, other))


@converts(aten.fmod.Tensor, aten.fmod.Scalar)
def fmod(x: Tensor, other: Any, meta_outputs: Any = None) -> Tensor:
    """Mod, whose remainder has the sign of the dividend: exact in any dtype that holds both."""
    return computed("Mod", meta_outputs.dtype, *in_type(meta_outputs.dtype, x, other))


@converts(aten.bitwise_and.Scalar, aten.bitwise_and.Tensor)
def bitwise_and(x: Tensor, other: Any, meta_outputs: Any = None) -> Tensor:
    """BitwiseAnd; LogicalAnd for bool."""
    return _bitwise(ge.BitwiseAnd, ge.LogicalAnd, x, other, meta_outputs)


@converts(aten.bitwise_or.Scalar, aten.bitwise_or.Tensor)
def bitwise_or(x: Tensor, other: Any, meta_outputs: Any = None) -> Tensor:
    """BitwiseOr; LogicalOr for bool."""
    return _bitwise(ge.BitwiseOr, ge.LogicalOr, x, other, meta_outputs)


@converts(aten.bitwise_xor.Scalar, aten.bitwise_xor.Tensor)
def bitwise_xor(x: Tensor, other: Any, meta_outputs: Any = None) -> Tensor:
    """BitwiseXor; not-equal for bool."""
    return _bitwise(ge.BitwiseXor, _differ, x, other, meta_outputs)


def _bitwise(integer_node: Any, bool_node: Any, x: Tensor, other: Any, meta_outputs: Any) -> Tensor:
    operands = in_type(meta_outputs.dtype, x, other)
    return bool_node(*operands) if meta_outputs.dtype == DataType.DT_BOOL else integer_node(*operands)  # type: ignore[no-any-return]


@converts(aten.logical_xor.default)
def logical_xor(x: Tensor, other: Tensor, meta_outputs: Any = None) -> Tensor:  # noqa: ARG001
    """Not-equal of bool."""
    return _differ(*in_type(DataType.DT_BOOL, x, other))


def _differ(one: Tensor, other: Tensor) -> Tensor:
    """Negated Equal: the node NotEqual does not support bool."""
    return ge.LogicalNot(ge.Equal(one, other))


@converts(aten.gelu.default)
def gelu(x: Tensor, *, approximate: str = "none", meta_outputs: Any = None) -> Tensor:  # noqa: ARG001
    """GeluV2, which supports both approximations; for Gelu, documents disagree between tanh and erf."""
    return ge.GeluV2(x, approximate=approximate)


@converts(aten.gelu_backward.default)
def gelu_backward(grad: Tensor, x: Tensor, *, approximate: str = "none", meta_outputs: Any = None) -> Tensor:
    """GeluGradV2, which supports both approximations; TorchAir always uses the gradient of the erf form."""
    return ge.GeluGradV2(*in_type(meta_outputs.dtype, grad, x), approximate=approximate)


@converts(aten.hardtanh.default)
def hardtanh(x: Tensor, min_val: Any = -1, max_val: Any = 1, meta_outputs: Any = None) -> Tensor:
    """ClipByValueV2, also where both bounds are equal: NaN stays NaN."""
    return ge.ClipByValueV2(*in_type(meta_outputs.dtype, x, min_val, max_val))


@converts(aten.nan_to_num.default)
def nan_to_num(
    x: Tensor,
    nan: float | None = None,
    posinf: float | None = None,
    neginf: float | None = None,
    meta_outputs: Any = None,
) -> Tensor:
    """NanToNum. Defaults: 0 for NaN, and the limits of the dtype for infinities."""
    if x.dtype not in _FLOATS:
        return ge.Identity(x)
    limits = torch.finfo(meta_outputs._meta.dtype)
    largest, smallest = (limits.max if posinf is None else posinf), (limits.min if neginf is None else neginf)
    return ge.NanToNum(x, nan=nan or 0.0, posinf=largest, neginf=smallest)


@converts(aten.full_like.default)
def full_like(x: Tensor, fill_value: Any, *, meta_outputs: Any = None, **_: Any) -> Tensor:
    """Fill with a scalar of the result's dtype: TorchAir rounds it to float32 first."""
    return ge.Fill(shape_of(x), in_type(meta_outputs.dtype, fill_value))


@converts(aten.round.decimals)
def round_decimals(x: Tensor, *, decimals: int = 0, meta_outputs: Any = None) -> Tensor:  # noqa: ARG001
    """Round after scaling by a power of ten, and scale back."""
    if x.dtype not in _FLOATS or decimals == 0:
        return ge.Round(x)
    scale = in_type(x.dtype, math.pow(10.0, abs(decimals)))
    if decimals > 0:
        return ge.RealDiv(ge.Round(ge.Mul(x, scale)), scale)
    return ge.Mul(ge.Round(ge.RealDiv(x, scale)), scale)


@converts(aten.complex.default)
def make_complex(real: Tensor, imag: Tensor, meta_outputs: Any = None) -> Tensor:  # noqa: ARG001
    """Complex."""
    return ge.Complex(real, imag)
