"""npu_all_to_all_matmul, npu_matmul_all_to_all and npu_quant_matmul_all_to_all.

The all-to-all turns rows into columns before the matmul, or columns into rows after it. Half-precision products are
accumulated in float32 with the bias and rounded once.
"""

from __future__ import annotations

import torch
from graph_quant.reference.collective.functional_collectives import group_all_to_all
from graph_quant.reference.collective.local_matmul import float_matmul, scaled_matmul
from torch import Tensor


def all_to_all_matmul(
    x1: Tensor, x2: Tensor, hcom: str, world_size: int, bias: Tensor | None, all2all_out_flag: bool
) -> tuple[Tensor, Tensor | None]:
    """The product, and the rows after the all-to-all if ``all2all_out_flag``."""
    rows = x1.size(0) // world_size
    received = group_all_to_all(x1, [rows] * world_size, [rows] * world_size, hcom)
    permuted = received.view(world_size, rows, x1.size(1)).transpose(0, 1).reshape(rows, world_size * x1.size(1))
    return float_matmul(permuted, x2, bias), permuted if all2all_out_flag else None


def matmul_all_to_all(x1: Tensor, x2: Tensor, hcom: str, world_size: int, bias: Tensor | None) -> Tensor:
    """The columns of this rank in the products of all ranks."""
    return _scatter_columns(float_matmul(x1, x2, bias), hcom, world_size)


def quant_matmul_all_to_all(
    x1: Tensor,
    x2: Tensor,
    hcom: str,
    world_size: int,
    bias: Tensor | None,
    x1_scale: Tensor,
    x2_scale: Tensor,
    output: torch.dtype,
) -> Tensor:
    """``matmul_all_to_all`` of int8, with per-row and per-column scales; the bias is added after the scales."""
    return _scatter_columns(scaled_matmul(x1, x2, x1_scale[:, None], x2_scale, bias, output), hcom, world_size)


def _scatter_columns(product: Tensor, hcom: str, world_size: int) -> Tensor:
    rows, columns = product.size(0), product.size(1) // world_size
    sent = product.view(rows, world_size, columns).transpose(0, 1).reshape(world_size * rows, columns)
    return group_all_to_all(sent, [rows] * world_size, [rows] * world_size, hcom)
