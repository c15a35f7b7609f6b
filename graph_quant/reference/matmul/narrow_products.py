"""Matrix products of float8, HiFloat8 and float4 on Ascend 950: exact products, accumulated in float32.

Operands are carried as in a graph (``graph_quant.ge.values``): float8 in its dtype, HiFloat8 in uint8, float4 one code
to an element. Every value has at most four significant bits, so that bfloat16 holds it, also times the power of two
that an MX block has as its scale: the product is one of half precision.
"""

from __future__ import annotations

import functools

import torch
from graph_quant import native
from graph_quant.ge import FOUR_BITS, stored_dtype
from graph_quant.narrow_floats import FORMATS, decode, decode_hif8, unpack_pairs
from graph_quant.reference.half_products import multiply, multiply_into
from torch import Tensor

HIFLOAT8 = "hifloat8"
BLOCK = 32
# Larger magnitudes are normal numbers in bfloat16; elements times a scale of that code or more are such.
_SMALLEST, _TINY_CODE = 2.0**-100, 60


def carried(x: Tensor, name: str, *, is_packed_along_rows: bool = False) -> Tensor:
    """A torch tensor as a graph carries its dtype.

    Args:
        x: float8, or bytes of the format ``name``; two float4 to a byte.
        name: GE's name of the dtype.
        is_packed_along_rows: Whether float4 are packed along the last dimension but one, as in a transposed view.

    Returns:
        The codes, one to an element.
    """
    dtype = stored_dtype(name)
    if dtype not in FOUR_BITS:
        return x if x.dtype == dtype else x.view(dtype)
    packed = x.view(torch.uint8)
    codes = unpack_pairs(packed.mT).mT if is_packed_along_rows else unpack_pairs(packed)
    return codes.view(dtype)


def widen(x: Tensor) -> Tensor:
    """The float32 values of a carried operand."""
    if x.dtype == torch.uint8:
        return decode_hif8(x)
    if x.dtype in FOUR_BITS:
        return decode(x.view(torch.uint8), next(known for known in FORMATS if stored_dtype(known.name) == x.dtype))
    return x.float()


def multiply_narrow(x1: Tensor, x2: Tensor) -> Tensor:
    """``x1 @ x2`` in float32 of carried operands; leading dimensions broadcast."""
    if _can_decode(x1, x2):
        return _multiply_slices(_decoded(x1, None, True), x2, None)
    return multiply(widen(x1).bfloat16(), widen(x2).bfloat16())


def multiply_mx(x1: Tensor, x2: Tensor, x1_scale: Tensor, x2_scale: Tensor) -> Tensor:
    """The product of MX operands in float32.

    Args:
        x1: (…, m, k) of float8 or float4, as carried.
        x2: (…, k, n).
        x1_scale: Codes of float8_e8m0fnu, (…, m, ceil(k / 64), 2).
        x2_scale: Codes, (…, ceil(k / 64), n, 2).

    Returns:
        (…, m, n).
    """
    left, right = x1_scale.view(torch.uint8), x2_scale.view(torch.uint8)
    if _can_decode(x1, x2):
        blocks = slice(-(-x1.size(1) // BLOCK))
        rows, columns = left.flatten(1)[:, blocks], right.movedim(-1, 1).flatten(0, 1)[blocks]
        if _are_moderate(rows) and _are_moderate(columns):
            return _multiply_slices(_decoded(x1, rows.contiguous(), True), x2, columns)
    one, other = _scale_blocks(widen(x1), left, -1), _scale_blocks(widen(x2), right, -2)
    if _is_subnormal(one, left) or _is_subnormal(other, right):
        return torch.matmul(one, other)
    return multiply(one.bfloat16(), other.bfloat16())


def _scale_blocks(values: Tensor, codes: Tensor, axis: int) -> Tensor:
    """Values times the scales of their blocks along ``axis``, whose pairs are in the last dimension of ``codes``."""
    axis = axis % values.dim()
    scales = codes.movedim(-1, axis + 1).flatten(axis, axis + 1).view(torch.float8_e8m0fnu).float()
    return values * scales.repeat_interleave(BLOCK, axis).narrow(axis, 0, values.size(axis))


def _is_subnormal(values: Tensor, codes: Tensor) -> bool:
    """Whether scaled values may be subnormal in bfloat16, whose products take those for zero."""
    return bool((codes < _TINY_CODE).any()) and bool(((values != 0) & (values.abs() < _SMALLEST)).any())


# Codes of scales by which no product of an element leaves the exponents of bfloat16.
_MODERATE = 27, 227
# Elements of a slice of the second operand, which stays in the cache in bfloat16.
_SLICE = 1 << 18


def _can_decode(x1: Tensor, x2: Tensor) -> bool:
    """Whether native code decodes these operands, matrices that are not traced."""
    return (
        native.can_decode_codes()
        and native.CAN_MULTIPLY_HALVES
        and type(x1) is type(x2) is Tensor
        and not torch.compiler.is_dynamo_compiling()
        and x1.is_cpu
        and x1.dim() == x2.dim() == 2
        and x1.size(1) == x2.size(0)
        and 1 in x2.stride()
        and x1.numel() > 0
        and x2.numel() > 0
    )


def _are_moderate(codes: Tensor) -> bool:
    low, high = codes.aminmax()
    return bool(low >= _MODERATE[0]) and bool(high <= _MODERATE[1])


def _multiply_slices(left: Tensor, x2: Tensor, scale: Tensor | None) -> Tensor:
    """``left @ x2``, of which a few columns at a time are decoded; ``scale`` is (k / 32, n)."""
    depth, columns = x2.shape
    out = left.new_empty((left.size(0), columns), dtype=torch.float32)
    width = max(BLOCK, _SLICE // depth // BLOCK * BLOCK)
    is_transposed = x2.stride(0) == 1
    if scale is not None:
        scale = scale.t().contiguous() if is_transposed else scale.contiguous()
    for start in range(0, columns, width):
        taken = slice(start, start + width)
        if is_transposed:
            right = _decoded(x2[:, taken].t(), None if scale is None else scale[taken], True).t()
        else:
            right = _decoded(x2[:, taken], None if scale is None else scale[:, taken], False)
        multiply_into(left, right, out[:, taken])
    return out


def _decoded(x: Tensor, scale: Tensor | None, along_rows: bool) -> Tensor:
    """The elements of a matrix in bfloat16, times their scales."""
    codes = x.view(torch.uint8)
    if codes.stride(1) != 1:
        codes = codes.contiguous()
    return native.decode_codes(codes, _table(x.dtype), scale, along_rows)


@functools.cache
def _table(dtype: torch.dtype) -> Tensor:
    """The bfloat16 of every code that a carried dtype holds, which is exact."""
    return widen(torch.arange(256, dtype=torch.int32).to(torch.uint8).view(dtype)).bfloat16()
