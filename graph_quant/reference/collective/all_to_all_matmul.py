"""npu_all_to_all_matmul, npu_matmul_all_to_all and its quantised form.

Rows of ranks become columns before a product, or back after it.

Products are of halves, summed in float32 with the bias, and rounded once.
"""

from __future__ import annotations

import torch
from graph_quant.reference.collective.functional_collectives import group_all_to_all
from graph_quant.reference.collective.local_matmul import float_matmul, scaled_matmul
from torch import Tensor


def all_to_all_matmul(
    x1: Tensor, x2: Tensor, hcom: str, world_size: int, bias: Tensor | None, all2all_out_flag: bool
) -> tuple[Tensor, Tensor | None]:
    """The product of this rank's rows of all ranks, and these rows."""
    rows = x1.size(0) // world_size
    came = group_all_to_all(x1, [rows] * world_size, [rows] * world_size, hcom)
    turned = came.view(world_size, rows, x1.size(1)).transpose(0, 1).reshape(rows, world_size * x1.size(1))
    return float_matmul(turned, x2, bias), turned if all2all_out_flag else None


def matmul_all_to_all(x1: Tensor, x2: Tensor, hcom: str, world_size: int, bias: Tensor | None) -> Tensor:
    """Of the products of all ranks, the columns of this one."""
    return _to_columns(float_matmul(x1, x2, bias), hcom, world_size)


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
    """The same of int8, with a scale for each row and each column; the bias is added after these."""
    return _to_columns(scaled_matmul(x1, x2, x1_scale[:, None], x2_scale, bias, output), hcom, world_size)


def _to_columns(product: Tensor, hcom: str, world_size: int) -> Tensor:
    rows, columns = product.size(0), product.size(1) // world_size
    sent = product.view(rows, world_size, columns).transpose(0, 1).reshape(world_size * rows, columns)
    return group_all_to_all(sent, [rows] * world_size, [rows] * world_size, hcom)
