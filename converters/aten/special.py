"""Special functions: GE has nodes for them, TorchAir has no converter."""

from __future__ import annotations

from typing import Any

import torch
from graph_quant.converters.decompositions import decomposes
from graph_quant.converters.lowering import computed, converts, in_type, taken_in
from torchair._ge_concrete_graph import ge_apis as ge
from torchair._ge_concrete_graph.compat_ir import ge_op
from torchair.ge._ge_graph import DataType, Tensor

aten = torch.ops.aten
_COMPLEX = (DataType.DT_COMPLEX64, DataType.DT_COMPLEX128)


def _convert_unary(overload: Any, op_type: str) -> None:
    """Register a unary function, computed in the dtype of the result."""

    @converts(overload)
    def convert(x: Tensor, meta_outputs: Any = None) -> Tensor:
        return computed(op_type, meta_outputs.dtype, in_type(meta_outputs.dtype, x))

    convert.__doc__ = f"{op_type}."


def _convert_binary(overload: Any, op_type: str) -> None:
    """Register a binary function, computed in the dtype of the result."""

    @converts(overload)
    def convert(x: Any, other: Any, meta_outputs: Any = None) -> Tensor:
        return computed(op_type, meta_outputs.dtype, *in_type(meta_outputs.dtype, x, other))

    convert.__doc__ = f"{op_type}."


_convert_unary(aten.special_i0e.default, "BesselI0e")
_convert_unary(aten.special_i1e.default, "BesselI1e")
_convert_unary(aten.special_ndtri.default, "Ndtri")
_convert_binary(aten.igamma.default, "Igamma")
_convert_binary(aten.igammac.default, "Igammac")
_convert_binary(aten.special_zeta.default, "Zeta")
_convert_binary(aten.special_zeta.self_scalar, "Zeta")
_convert_binary(aten.special_zeta.other_scalar, "Zeta")
_convert_binary(aten.gcd.default, "Gcd")


@converts(aten.lgamma.default)
def lgamma(x: Tensor, meta_outputs: Any = None) -> Tensor:
    """Lgamma, which TorchAir has no prototype of."""
    return _unregistered_unary("Lgamma", x, meta_outputs)


@converts(aten.digamma.default)
def digamma(x: Tensor, meta_outputs: Any = None) -> Tensor:
    """Digamma, which TorchAir has no prototype of."""
    return _unregistered_unary("Digamma", x, meta_outputs)


def _unregistered_unary(op_type: str, x: Tensor, meta_outputs: Any) -> Tensor:
    """A node without a prototype; half precision in float32, because the node does not support bfloat16."""
    is_half = meta_outputs.dtype in (DataType.DT_FLOAT16, DataType.DT_BF16)
    operand = in_type(DataType.DT_FLOAT if is_half else meta_outputs.dtype, x)
    y: Tensor = ge_op(op_type=op_type, inputs={"x": operand}, outputs=["y"], attrs={})
    y.desc.dtype = operand.desc.dtype
    return in_type(meta_outputs.dtype, y)  # type: ignore[no-any-return]


@converts(aten.nextafter.default)
def nextafter(x: Tensor, other: Tensor, meta_outputs: Any = None) -> Tensor:
    """NextAfter, only in dtypes that the node supports: a cast would change the next number."""
    if taken_in("NextAfter", meta_outputs.dtype) != meta_outputs.dtype:
        raise NotImplementedError("aten.nextafter is lowered for float32: the next number of half precision is not")
    return ge.NextAfter(*in_type(meta_outputs.dtype, x, other))


@converts(aten.logcumsumexp.default)
def logcumsumexp(x: Tensor, dim: int, meta_outputs: Any = None) -> Tensor:
    """CumulativeLogsumexp; the identity for a scalar."""
    if not x.rank:
        return ge.Identity(x)
    axis = ge.Const(dim % x.rank, dtype=DataType.DT_INT32)
    inner = taken_in("CumulativeLogsumexp", meta_outputs.dtype)
    return in_type(meta_outputs.dtype, ge.CumulativeLogsumexp(in_type(inner, x), axis))  # type: ignore[no-any-return]


@decomposes(aten.angle.default)
def angle_of_real(x: torch.Tensor) -> Any:
    """The angle of real numbers: pi if negative, else 0; NaN for NaN."""
    if x.is_complex():
        return NotImplemented
    kind = x.dtype if x.is_floating_point() else torch.get_default_dtype()
    result = torch.where(x < 0, torch.pi, 0.0).to(kind)
    return torch.where(torch.isnan(x), x, result) if x.is_floating_point() else result


@converts(aten.angle.default)
def angle(x: Tensor, meta_outputs: Any = None) -> Tensor:
    """Angle."""
    return ge.Angle(x, Tout=meta_outputs.dtype)


@converts(aten._conj.default, aten._conj_physical.default, aten.conj_physical.default)
def conjugate(x: Tensor, meta_outputs: Any = None) -> Tensor:  # noqa: ARG001
    """Conj."""
    return ge.Conj(x) if x.dtype in _COMPLEX else ge.Identity(x)
