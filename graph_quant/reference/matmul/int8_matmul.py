"""The exact int8 matrix product, as fast as the processor allows. It is one opaque operator to tracers."""

from __future__ import annotations

import math

import torch
from graph_quant import native
from graph_quant.dispatcher import step

# float32 is exact up to 2**24, and a product of two int8 is at most 2**14: the number of products with an exact sum.
_EXACT_DEPTH = 2**24 // 2**14


# Without these instructions torch._int_mm is a scalar loop, a hundred times slower than float32 blocks.
_HAS_INT8_DOT_PRODUCT = bool(torch.cpu._is_vnni_supported())
# torch._int_mm uses AMX tiles where the processor has them.
_HAS_TILES = bool(torch.cpu._is_amx_tile_supported())


def is_native(x1: torch.Tensor, x2: torch.Tensor) -> bool:
    """Whether the package's native code multiplies these operands; it reads a weight in place, without repacking."""
    return not _HAS_TILES and native.can_multiply_int8(x1, x2)


def int8_matmul(x1: torch.Tensor, x2: torch.Tensor) -> torch.Tensor:
    """``x1 @ x2`` of int8 tensors in int32; leading dimensions broadcast."""
    if type(x1) is type(x2) is torch.Tensor and not torch.compiler.is_dynamo_compiling():
        return _int8_matmul(x1, x2)
    return STEP(x1, x2)  # type: ignore[no-any-return]


def _int8_matmul(x1: torch.Tensor, x2: torch.Tensor) -> torch.Tensor:
    batch = torch.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    rows, depth, columns = x1.size(-2), x1.size(-1), x2.size(-1)
    count = math.prod(batch)
    if x2.shape[:-2].numel() == 1:
        product = _matrix_product(x1.reshape(count * rows, depth), x2.reshape(depth, columns))
        return product.reshape(*batch, rows, columns)
    left = x1.expand(*batch, rows, depth).reshape(count, rows, depth)
    right = x2.expand(*batch, depth, columns).reshape(count, depth, columns)
    product = x1.new_empty((count, rows, columns), dtype=torch.int32)
    for index in range(count):
        product[index] = _matrix_product(left[index], right[index])
    return product.reshape(*batch, rows, columns)


def _matrix_product(x1: torch.Tensor, x2: torch.Tensor) -> torch.Tensor:
    if is_native(x1, x2):
        return native.int8_product(x1, x2)
    if _HAS_INT8_DOT_PRODUCT:
        return torch._int_mm(_plain_strides(x1), _plain_strides(x2))
    total = x1.new_zeros((x1.size(0), x2.size(1)), dtype=torch.int32)
    for start in range(0, x1.size(1), _EXACT_DEPTH):
        depth = slice(start, start + _EXACT_DEPTH)
        total += torch.mm(x1[:, depth].float(), x2[depth].float()).to(torch.int32)
    return total


def _plain_strides(matrix: torch.Tensor) -> torch.Tensor:
    """``matrix`` if ``_are_plain`` holds, else a contiguous copy."""
    if _are_plain(matrix):
        return matrix
    return torch.empty(matrix.shape, dtype=matrix.dtype, device=matrix.device).copy_(matrix)


def _are_plain(matrix: torch.Tensor) -> bool:
    """Whether the strides are those of a row-major or column-major matrix whose rows or columns do not overlap.

    torch._int_mm does not write its result for other strides. Expanded matrices have such strides. A matrix with one
    row or column may have any stride in that dimension and still count as contiguous.
    """
    (rows, columns), (down, across) = matrix.shape, matrix.stride()
    return (across == 1 and down >= max(columns, 1)) or (down == 1 and across >= max(rows, 1))


def as_int_mm(x1: torch.Tensor, x2: torch.Tensor) -> torch.Tensor:
    """The product by ATen's ``_int_mm``, which compiled code calls without Python; NotImplemented for dynamic sizes."""
    sizes = (*x1.shape, *x2.shape, *x1.stride(), *x2.stride())
    is_static = _HAS_INT8_DOT_PRODUCT and x1.dim() == x2.dim() == 2 and all(isinstance(size, int) for size in sizes)
    if is_native(x1, x2) or not (is_static and all(sizes) and _are_plain(x1) and _are_plain(x2)):
        return NotImplemented
    return torch._int_mm(x1, x2)


def _shape_only(x1: torch.Tensor, x2: torch.Tensor) -> torch.Tensor:
    batch = torch.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    return x1.new_empty((*batch, x1.size(-2), x2.size(-1)), dtype=torch.int32)


STEP = step("int8_matmul(Tensor x1, Tensor x2) -> Tensor", _int8_matmul, _shape_only)
