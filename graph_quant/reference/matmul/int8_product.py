"""The exact int8 matrix product, as fast as the processor allows."""

from __future__ import annotations

import math

import torch

# float32 is exact up to 2**24, and a product of two int8 is at most 2**14: so many of them can be summed exactly.
_EXACT_DEPTH = 2**24 // 2**14


# Without such instructions torch._int_mm is a scalar loop, a hundred times slower than float32 blocks.
_HAS_INT8_DOT_PRODUCT = bool(torch.cpu._is_vnni_supported())


def int8_matmul(x1: torch.Tensor, x2: torch.Tensor) -> torch.Tensor:
    """``x1 @ x2`` of int8 tensors in int32; leading dimensions broadcast."""
    batch = torch.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    rows, depth, columns = x1.size(-2), x1.size(-1), x2.size(-1)
    count = math.prod(batch)
    if x2.shape[:-2].numel() == 1:
        product = _matrix_product(x1.reshape(count * rows, depth), x2.reshape(depth, columns))
        return product.reshape(*batch, rows, columns)
    left = x1.expand(*batch, rows, depth).reshape(count, rows, depth)
    right = x2.expand(*batch, depth, columns).reshape(count, depth, columns)
    product = x1.new_empty((count, rows, columns), dtype=torch.int32)
    for place in range(count):
        product[place] = _matrix_product(left[place], right[place])
    return product.reshape(*batch, rows, columns)


def _matrix_product(x1: torch.Tensor, x2: torch.Tensor) -> torch.Tensor:
    # Blocks turn a symbolic depth into a number: compiled code guards on it, but inference of shapes would lose it.
    is_shape_inference = not torch.compiler.is_dynamo_compiling() and isinstance(x1.size(1), torch.SymInt)
    if is_shape_inference or _HAS_INT8_DOT_PRODUCT:
        return torch._int_mm(x1, x2)
    total = x1.new_zeros((x1.size(0), x2.size(1)), dtype=torch.int32)
    for start in range(0, x1.size(1), _EXACT_DEPTH):
        depth = slice(start, start + _EXACT_DEPTH)
        total += torch.mm(x1[:, depth].float(), x2[depth].float()).to(torch.int32)
    return total
