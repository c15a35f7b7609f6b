"""Elementwise arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ...chip import ASCEND_950, check_conversion, converts_on_950, is_950, require_described
from ...ge import FOUR_BITS, OF_ATTRIBUTE, Sizes, constant_kernel, from_attr, ge_dtype_name, kernel
from ...reference.half_precision import add_scaled, upcast_half
from ...reference.matmul.narrow_products import widen
from ...reference.narrow_casts import cast_in_bytes, convert

_FLOATS = (torch.float16, torch.bfloat16, torch.float32)

_UNARY: dict[str, Callable[[Tensor], Tensor]] = {
    "Abs": torch.abs,
    "Acos": torch.acos,
    "Acosh": torch.acosh,
    "Asin": torch.asin,
    "Asinh": torch.asinh,
    "Atan": torch.atan,
    "Atanh": torch.atanh,
    "Ceil": torch.ceil,
    "Cos": torch.cos,
    "Cosh": torch.cosh,
    "Digamma": torch.digamma,
    "Erf": torch.erf,
    "Erfc": torch.erfc,
    "Expm1": torch.expm1,
    "Floor": torch.floor,
    "Invert": torch.bitwise_not,
    "IsFinite": torch.isfinite,
    "IsInf": torch.isinf,
    "IsNan": torch.isnan,
    "Lgamma": torch.lgamma,
    "Log1p": torch.log1p,
    "LogicalNot": torch.logical_not,
    "Neg": torch.neg,
    "Reciprocal": torch.reciprocal,
    "Rint": torch.round,
    "Round": torch.round,
    "Rsqrt": torch.rsqrt,
    "Sign": torch.sgn,
    "Sin": torch.sin,
    "Sinh": torch.sinh,
    "Sqrt": torch.sqrt,
    "Square": torch.square,
    "Tan": torch.tan,
    "Tanh": torch.tanh,
}

_BINARY: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "Add": torch.add,
    "AddV2": torch.add,
    "Atan2": torch.atan2,
    "BitwiseAnd": torch.bitwise_and,
    "BitwiseOr": torch.bitwise_or,
    "BitwiseXor": torch.bitwise_xor,
    "FloorMod": torch.remainder,
    "LogicalAnd": torch.logical_and,
    "LogicalOr": torch.logical_or,
    "LogicalXor": torch.logical_xor,
    "Maximum": torch.maximum,
    "Minimum": torch.minimum,
    "Mod": torch.fmod,
    "Mul": torch.mul,
    "Pow": torch.pow,
    "Sub": torch.sub,
}
# The last bits of these depend on strides, which a graph does not describe.
_CONTIGUOUS = frozenset({"Atan2", "Atanh", "Cosh", "Pow", "Rsqrt", "Sinh"})


def _register_unary(op_type: str, function: Callable[[Tensor], Tensor]) -> None:
    contiguous = op_type in _CONTIGUOUS

    def run(x: Tensor) -> Tensor:
        return function(x.contiguous() if contiguous else x)

    run.__name__ = run.__qualname__ = op_type
    kernel(op_type, flops=6 if op_type == "Tanh" else 1)(run)


def _register_binary(op_type: str, function: Callable[[Tensor, Tensor], Tensor]) -> None:
    contiguous = op_type in _CONTIGUOUS

    def run(x1: Tensor, x2: Tensor) -> Tensor:
        return function(x1.contiguous(), x2.contiguous()) if contiguous else function(x1, x2)

    run.__name__ = run.__qualname__ = op_type
    kernel(op_type, same=("x1", "x2"))(run)


for _type, _function in _UNARY.items():
    _register_unary(_type, _function)
for _type, _function in _BINARY.items():  # type: ignore[assignment]
    _register_binary(_type, _function)  # type: ignore[arg-type]


@constant_kernel("Pow")
def power_of_constant(x1: Tensor, x2: Sizes) -> Tensor:
    return torch.pow(x1.contiguous(), x2.scalar)


@kernel("Trunc")
def truncate(input_x: Tensor) -> Tensor:
    return torch.trunc(input_x)


@kernel("Erfinv")
def inverse_erf(input_x: Tensor) -> Tensor:
    return torch.erfinv(input_x)


@kernel("LeftShift")
def left_shift(x: Tensor, y: Tensor) -> Tensor:
    return torch.bitwise_left_shift(x, y)


@kernel("RightShift")
def right_shift(x: Tensor, y: Tensor) -> Tensor:
    return torch.bitwise_right_shift(x, y)


@kernel("Cast", flops=0)
def cast(x: Tensor, *, dst_type: int) -> Tensor:
    dtype, name = from_attr(dst_type), OF_ATTRIBUTE[dst_type]
    if name == "hifloat8" or x.dtype in FOUR_BITS or dtype in FOUR_BITS:
        require_described(f"Cast from {ge_dtype_name(x.dtype)} to {name}", (ASCEND_950,))
        if x.dtype in FOUR_BITS and dtype in _FLOATS:
            return widen(x).to(dtype)
        if x.dtype not in _FLOATS:
            raise TypeError(f"Cast from {ge_dtype_name(x.dtype)} to {name} is not described")
        return cast_in_bytes(x, name).view(dtype)
    check_conversion("Cast", x.dtype, dtype)
    if is_950() and converts_on_950(x.dtype, dtype):
        return convert(x, dtype)
    if x.is_complex() and not dtype.is_complex:
        x = torch.view_as_real(x)[..., 0]
    return x.to(dtype, copy=True)


@kernel("Exp")
def exp(x: Tensor, *, base: float = -1.0, scale: float = 1.0, shift: float = 0.0) -> Tensor:
    power = _scaled(x, scale, shift)
    if base == 2.0:
        return torch.exp2(power.contiguous())
    return torch.exp(power if base == -1.0 else power * math.log(base))


@kernel("Log")
def log(x: Tensor, *, base: float = -1.0, scale: float = 1.0, shift: float = 0.0) -> Tensor:
    argument = _scaled(x, scale, shift)
    if base == 2.0:
        return torch.log2(argument)
    if base == 10.0:
        return torch.log10(argument)
    return torch.log(argument) if base == -1.0 else torch.log(argument) / math.log(base)


def _scaled(x: Tensor, scale: float, shift: float) -> Tensor:
    return x if scale == 1.0 and shift == 0.0 else x * scale + shift


@kernel("Div", "RealDiv", same=("x1", "x2"))
def divide(x1: Tensor, x2: Tensor) -> Tensor:
    if x1.is_floating_point() or x1.is_complex():
        return torch.div(x1, x2)
    return truncate_divide(x1, x2)


@kernel("FloorDiv", same=("x1", "x2"))
def floor_divide(x1: Tensor, x2: Tensor) -> Tensor:
    return torch.div(x1, x2, rounding_mode="floor")


@kernel("TruncateDiv")
def truncate_divide(x1: Tensor, x2: Tensor) -> Tensor:
    if x1.is_floating_point() or x2.is_floating_point() or not x2.dtype.is_signed:
        return torch.div(x1, x2, rounding_mode="trunc")
    # CPUs trap when the smallest integer is divided by -1; it is its own negative.
    by_minus_one = x2 == -1
    return torch.where(by_minus_one, -x1, torch.div(x1, x2.masked_fill(by_minus_one, 1), rounding_mode="trunc"))


@kernel("DivNoNan")
def divide_no_nan(x1: Tensor, x2: Tensor) -> Tensor:
    return torch.where(x2 == 0, torch.zeros((), dtype=x1.dtype), torch.div(x1, x2))


@kernel("Muls")
def multiply_scalar(x: Tensor, *, value: float) -> Tensor:
    return (x * value).to(x.dtype)


@kernel("Adds")
def add_scalar(x: Tensor, *, value: float) -> Tensor:
    return (x + value).to(x.dtype)


@kernel("AxpyV2")
def axpy(x1: Tensor, x2: Tensor, alpha: Tensor) -> Tensor:
    return add_scaled(x1, x2, alpha)


@kernel("Axpy")
def axpy_attribute(x1: Tensor, x2: Tensor, *, alpha: float) -> Tensor:
    return torch.add(x1, x2, alpha=alpha)


@kernel("Sxpy")
def sxpy(x1: Tensor, x2: Tensor, alpha: Tensor | None = None) -> Tensor:
    return x1 - x2 if alpha is None else add_scaled(x1, x2, -alpha)


@kernel("Addcdiv")
def addcdiv(input_data: Tensor, x1: Tensor, x2: Tensor, value: Tensor) -> Tensor:
    wide = upcast_half(input_data) + upcast_half(value) * upcast_half(x1) / upcast_half(x2)
    return wide.to(input_data.dtype)


@kernel("Addcmul")
def addcmul(input_data: Tensor, x1: Tensor, x2: Tensor, value: Tensor) -> Tensor:
    # ATen's operator rounds product and sum once, as a fused multiply-add.
    wide = torch.addcmul(upcast_half(input_data), upcast_half(value) * upcast_half(x1), upcast_half(x2))
    return wide.to(input_data.dtype)


@kernel("Lerp")
def lerp(start: Tensor, end: Tensor, weight: Tensor) -> Tensor:
    return torch.lerp(start, end, weight.to(start.dtype))


@kernel("SquaredDifference")
def squared_difference(x1: Tensor, x2: Tensor) -> Tensor:
    return torch.square(x1 - x2)


@kernel("AddN", "AccumulateNV2", idle=("N",))
def add_all(x: Sequence[Tensor]) -> Tensor:
    total = x[0]
    for term in x[1:]:
        total = total + term
    return total if len(x) > 1 else total.clone()


@kernel("ClipByValueV2", "ClipByValue")
def clip(x: Tensor, clip_value_min: Tensor, clip_value_max: Tensor) -> Tensor:
    return torch.clamp(x, clip_value_min, clip_value_max).to(x.dtype)


@kernel("NanToNum")
def nan_to_num(x: Tensor, *, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Tensor:
    return torch.nan_to_num(x, nan, posinf, neginf)


@kernel("Complex", idle=("Tout",))
def make_complex(real: Tensor, imag: Tensor) -> Tensor:
    return torch.complex(real, imag)


@kernel("Real", may_alias=True, idle=("Tout",))
def real_part(input: Tensor) -> Tensor:  # noqa: A002
    return torch.view_as_real(input)[..., 0] if input.is_complex() else input


@kernel("Imag", may_alias=True, idle=("Tout",))
def imaginary_part(input: Tensor) -> Tensor:  # noqa: A002
    return torch.view_as_real(input)[..., 1] if input.is_complex() else torch.zeros_like(input)
