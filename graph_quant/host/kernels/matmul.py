"""Matrix products. Half precision is summed in float32 and rounded once, as the cube unit does.

Small half products are torch's own for the same operands, so that a graph gives the bits of eager execution. For large
ones many CPUs need minutes, and float32 stands in: the same sums in another order.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ...reference.matmul import int8_matmul
from .registry import kernel

HALVES = (torch.float16, torch.bfloat16)
# Multiplications that torch does in half precision within about 50 ms where the CPU has no instructions for it.
SMALL = 1 << 24


def product(x1: Tensor, x2: Tensor, bias: Tensor | None) -> Tensor:
    """``x1 @ x2 + bias``; of int8 in int32, by the fast path."""
    if x1.dtype == torch.int8:
        total = int8_matmul(x1, x2)
        return total if bias is None else total + bias
    if x1.dtype in HALVES and not (bias is None and _is_small(x1, x2)):
        total = torch.matmul(x1.float(), x2.float())
    else:
        total = torch.matmul(x1, x2)
    return (total if bias is None else total + bias).to(x1.dtype)


def _is_small(x1: Tensor, x2: Tensor) -> bool:
    sizes = (*x1.shape, x2.size(-1))
    return all(isinstance(size, int) for size in sizes) and math.prod(sizes) <= SMALL


@kernel("MatMul", "MatMulV2", "MatMulV3")
def matmul(
    x1: Tensor,
    x2: Tensor,
    bias: Tensor | None = None,
    *,
    transpose_x1: bool = False,
    transpose_x2: bool = False,
) -> Tensor:
    return product(x1.mT if transpose_x1 else x1, x2.mT if transpose_x2 else x2, bias)


@kernel("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
def batch_matmul(
    x1: Tensor, x2: Tensor, bias: Tensor | None = None, *, adj_x1: bool = False, adj_x2: bool = False
) -> Tensor:
    return product(x1.mT if adj_x1 else x1, x2.mT if adj_x2 else x2, bias)


@kernel("Dot")
def dot(input_x: Tensor, input_y: Tensor) -> Tensor:
    return torch.dot(input_x, input_y)
