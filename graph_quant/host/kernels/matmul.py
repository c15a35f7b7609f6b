"""Matrix products. They have the bits of eager execution on the host NPU."""

from __future__ import annotations

import torch
from torch import Tensor

from ...ge import CONTRACTION, kernel
from ...reference.matmul.int8_product import int8_matmul
from ..halves import too_large


def product(x1: Tensor, x2: Tensor, bias: Tensor | None) -> Tensor:
    """``x1 @ x2 + bias``; of int8 in int32, by the fast path."""
    if x1.dtype == torch.int8:
        total = int8_matmul(x1, x2)
        return total if bias is None else total + bias
    if too_large(x1, x2):
        total = torch.matmul(x1.float(), x2.float())
        return (total if bias is None else total + bias).to(x1.dtype)
    if bias is None:
        return torch.matmul(x1, x2)
    if x1.dim() == x2.dim() == 2 and bias.dtype == x1.dtype:
        return torch.addmm(bias, x1, x2)
    # The bias is added before the product is rounded to half precision.
    wide = torch.promote_types(x1.dtype, torch.float32)
    return (torch.matmul(x1.to(wide), x2.to(wide)) + bias).to(x1.dtype)


@kernel("MatMul", "MatMulV2", "MatMulV3", flops=CONTRACTION, same=("x1", "x2"))
def matmul(
    x1: Tensor,
    x2: Tensor,
    bias: Tensor | None = None,
    *,
    transpose_x1: bool = False,
    transpose_x2: bool = False,
) -> Tensor:
    return product(x1.mT if transpose_x1 else x1, x2.mT if transpose_x2 else x2, bias)


@kernel("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", flops=CONTRACTION, same=("x1", "x2"))
def batch_matmul(
    x1: Tensor, x2: Tensor, bias: Tensor | None = None, *, adj_x1: bool = False, adj_x2: bool = False
) -> Tensor:
    return product(x1.mT if adj_x1 else x1, x2.mT if adj_x2 else x2, bias)


@kernel("Dot")
def dot(input_x: Tensor, input_y: Tensor) -> Tensor:
    return torch.dot(input_x, input_y)


@kernel("MatrixTriangularSolve")
def solve_triangular(matrix: Tensor, rhs: Tensor, *, lower: bool = True, adjoint: bool = False) -> Tensor:
    triangle = (matrix.mH if adjoint else matrix).contiguous()
    return torch.linalg.solve_triangular(triangle, rhs.contiguous(), upper=lower if adjoint else not lower).contiguous()
