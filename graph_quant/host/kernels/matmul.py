"""Matrix products, bitwise equal to eager execution on the host NPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ...ge import CONTRACTION, kernel
from ...reference import half_products
from ...reference.half_precision import HALF_DTYPES
from ...reference.matmul.int8_matmul import int8_matmul

# Rows or columns below which a BLAS may use another kernel for column-major operands.
_FEW = 32


def product(x1: Tensor, x2: Tensor, bias: Tensor | None) -> Tensor:
    """Return ``x1 @ x2 + bias``; int8 operands give int32."""
    if x1.dtype == torch.int8:
        total = int8_matmul(x1, x2)
        return total if bias is None else total + bias
    if half_products.can_multiply(x1, x2) or half_products.is_large_half_product(x1, x2):
        return half_products.multiply(x1, x2, bias, x1.dtype)
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


def matmul_with_layout(
    x1: Tensor,
    x2: Tensor,
    bias: Tensor | None = None,
    *,
    columns: tuple[bool, bool],
    transpose_x1: bool = False,
    transpose_x2: bool = False,
    adj_x1: bool = False,
    adj_x2: bool = False,
) -> Tensor:
    """Compute a product with operands in eager mode's layout, row-major or column-major, if that affects bits."""
    x1 = x1.mT if transpose_x1 or adj_x1 else x1
    x2 = x2.mT if transpose_x2 or adj_x2 else x2
    if _strides_affect_bits(x1, x2):
        x1, x2 = (_with_layout(x, is_column) for x, is_column in zip((x1, x2), columns, strict=True))
    return product(x1, x2, bias)


def grouped_matmul_with_layout(
    x: Sequence[Tensor], weight: Sequence[Tensor], *rest: Any, columns: tuple[bool, bool], **settings: Any
) -> list[Tensor]:
    """Compute a grouped product with float operands in eager mode's layout, if that affects bits.

    Any group may have few rows.
    """
    from ...reference.matmul.grouped_matmul_node import grouped_matmul_node

    is_float = x[0].dtype in (*HALF_DTYPES, torch.float32) and x[0].dtype == weight[0].dtype
    if is_float and (x[0].dtype not in HALF_DTYPES or _strides_affect_bits(x[0], weight[0])):
        transposed = (bool(settings.get("transpose_x")), bool(settings.get("transpose_weight")))
        wanted = [column != swapped for column, swapped in zip(columns, transposed, strict=True)]
        x, weight = ([_with_layout(operand[0], column)] for operand, column in zip((x, weight), wanted, strict=True))
    return grouped_matmul_node(x, weight, *rest, **settings)


def _strides_affect_bits(x1: Tensor, x2: Tensor) -> bool:
    """Whether the order of summation on the CPU depends on strides. Symbolic sizes count as small."""
    if x1.dtype in HALF_DTYPES:
        return half_products.STRIDES_AFFECT_BITS or x1.dtype != x2.dtype
    if x1.dtype == torch.float64:
        return True
    outer = (x1.size(-2), x2.size(-1))
    return x1.dtype == torch.float32 and any(not isinstance(size, int) or size < _FEW for size in outer)


def _with_layout(x: Tensor, in_columns: bool) -> Tensor:
    return _row_major(x.mT).mT if in_columns else _row_major(x)


def _row_major(x: Tensor) -> Tensor:
    """Return a row-major tensor; a single row or column also gets row-major strides."""
    width = x.size(-1)
    if x.stride(-1) == 1 and x.stride(-2) >= width:
        return x
    x = x.contiguous()
    return x if x.stride()[-2:] == (width, 1) else x.as_strided(x.shape, (*x.stride()[:-2], width, 1))


@kernel("Dot")
def dot(input_x: Tensor, input_y: Tensor) -> Tensor:
    return torch.dot(input_x, input_y)


@kernel("MatrixTriangularSolve")
def solve_triangular(matrix: Tensor, rhs: Tensor, *, lower: bool = True, adjoint: bool = False) -> Tensor:
    triangle = (matrix.mH if adjoint else matrix).contiguous()
    return torch.linalg.solve_triangular(triangle, rhs.contiguous(), upper=lower if adjoint else not lower).contiguous()
