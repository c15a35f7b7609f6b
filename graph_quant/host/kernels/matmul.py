"""Matrix products. Sums are as wide as torch makes them: float32 for half precision."""

from __future__ import annotations

import torch
from torch import Tensor

from ...reference.matmul import int8_matmul
from .registry import kernel


def product(x1: Tensor, x2: Tensor) -> Tensor:
    """``x1 @ x2``; of int8 in int32, by the fast path."""
    if x1.dtype == torch.int8:
        return int8_matmul(x1, x2)
    return torch.matmul(x1, x2)


@kernel("MatMul", "MatMulV2", "MatMulV3")
def matmul(
    x1: Tensor,
    x2: Tensor,
    bias: Tensor | None = None,
    *,
    transpose_x1: bool = False,
    transpose_x2: bool = False,
) -> Tensor:
    return _with_bias(product(x1.mT if transpose_x1 else x1, x2.mT if transpose_x2 else x2), bias)


@kernel("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
def batch_matmul(
    x1: Tensor, x2: Tensor, bias: Tensor | None = None, *, adj_x1: bool = False, adj_x2: bool = False
) -> Tensor:
    return _with_bias(product(x1.mT if adj_x1 else x1, x2.mT if adj_x2 else x2), bias)


def _with_bias(result: Tensor, bias: Tensor | None) -> Tensor:
    return result if bias is None else (result + bias).to(result.dtype)


@kernel("Dot")
def dot(input_x: Tensor, input_y: Tensor) -> Tensor:
    return torch.dot(input_x, input_y)
