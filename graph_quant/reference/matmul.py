"""The exact int8 matrix product, as fast as the processor allows."""

from __future__ import annotations

import functools
import math

import torch

# float32 is exact up to 2**24, and a product of two int8 is at most 2**14: so many of them can be summed exactly.
_EXACT_DEPTH = 2**24 // 2**14


@functools.cache
def _has_int8_dot_product() -> bool:
    """Without such instructions torch._int_mm is a scalar loop, a hundred times slower than float32 blocks."""
    return bool(torch.cpu._is_vnni_supported())


def int8_matmul(x1: torch.Tensor, x2: torch.Tensor) -> torch.Tensor:
    """``x1 @ x2`` of int8 tensors in int32; leading dimensions broadcast."""
    batch = torch.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    shape = (*batch, x1.size(-2), x2.size(-1))
    if x2.shape[:-2].numel() == 1:
        rows = x1.reshape(-1, x1.size(-1)) if x1.numel() else x1.new_zeros(math.prod(shape[:-1]), x1.size(-1))
        return _matrix_product(rows, x2.reshape(x2.shape[-2:])).reshape(shape)
    left = x1.expand(*batch, *x1.shape[-2:]).reshape(-1, *x1.shape[-2:])
    right = x2.expand(*batch, *x2.shape[-2:]).reshape(-1, *x2.shape[-2:])
    products = [_matrix_product(one, other) for one, other in zip(left, right, strict=True)]
    return torch.stack(products).reshape(shape) if products else x1.new_empty(shape, dtype=torch.int32)


def _matrix_product(x1: torch.Tensor, x2: torch.Tensor) -> torch.Tensor:
    if _has_int8_dot_product():
        return torch._int_mm(x1, x2)
    total = x1.new_zeros((x1.size(0), x2.size(1)), dtype=torch.int32)
    for start in range(0, x1.size(1), _EXACT_DEPTH):
        depth = slice(start, start + _EXACT_DEPTH)
        total += torch.mm(x1[:, depth].float(), x2[depth].float()).to(torch.int32)
    return total
