"""Matrix products of float8, HiFloat8 and float4 on Ascend 950: exact products, accumulated in float32.

Operands are carried as in a graph (``graph_quant.ge.values``): float8 in its dtype, HiFloat8 in uint8, float4 one code
to an element. Every value has at most four significant bits, so that bfloat16 holds it, also times the power of two
that an MX block has as its scale: the product is one of half precision.
"""

from __future__ import annotations

import torch
from graph_quant.ge import FOUR_BITS, stored_dtype
from graph_quant.narrow_floats import FORMATS, decode, decode_hif8, unpack_pairs
from graph_quant.reference.half_products import multiply
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
