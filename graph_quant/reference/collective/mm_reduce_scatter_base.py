"""npu_mm_reduce_scatter_base: the product of each rank, and of their sum the rows that belong to a rank.

A rank's product is rounded to the result's dtype, in which ranks add, rounding after each addition.
npu_quant_mm_reduce_scatter is the same, and has a second result that is not computed today.
"""

from __future__ import annotations

import torch
from graph_quant.ge import CONTRACTION, from_attr, kernel
from graph_quant.reference.collective.functional_collectives import group_reduce_scatter
from graph_quant.reference.collective.local_matmul import float_matmul, scaled_matmul
from torch import Tensor


def mm_reduce_scatter_base(
    input: Tensor,  # noqa: A002  (the schema's name)
    x2: Tensor,
    hcom: str,
    world_size: int,
    bias: Tensor | None,
    x1_scale: Tensor | None,
    x2_scale: Tensor | None,
    output: torch.dtype,
) -> Tensor:
    """The rows of this rank."""
    if x2_scale is None:
        product = float_matmul(input, x2, bias)
    else:
        product = scaled_matmul(input, x2, x1_scale, x2_scale, bias, output)
    kept = product.size(0) // world_size
    return group_reduce_scatter(product, "sum", [kept] * world_size, kept, hcom)


def quant_mm_reduce_scatter(
    input: Tensor,  # noqa: A002  (the schema's name)
    x2: Tensor,
    hcom: str,
    world_size: int,
    bias: Tensor | None,
    x1_scale: Tensor | None,
    x2_scale: Tensor | None,
    output: torch.dtype,
) -> tuple[Tensor, Tensor]:
    """The rows of this rank, and nothing."""
    rows = mm_reduce_scatter_base(input, x2, hcom, world_size, bias, x1_scale, x2_scale, output)
    return rows, input.new_empty(0, dtype=torch.float32)


@kernel("MatmulReduceScatter", flops=CONTRACTION, idle=("comm_turn",))
def mm_reduce_scatter_node(
    x1: Tensor,
    x2: Tensor,
    bias: Tensor | None = None,
    *,
    group: str,
    is_trans_a: bool = False,
    is_trans_b: bool = False,
    rank_size: int = 0,
) -> Tensor:
    x1, x2 = x1.mT if is_trans_a else x1, x2.mT if is_trans_b else x2
    return mm_reduce_scatter_base(x1, x2, group, rank_size, bias, None, None, x1.dtype)


@kernel("MatmulReduceScatterV2", flops=CONTRACTION, idle=("comm_turn", "comm_mode"))
def mm_reduce_scatter_v2_node(
    x1: Tensor,
    x2: Tensor,
    bias: Tensor | None = None,
    x1_scale: Tensor | None = None,
    x2_scale: Tensor | None = None,
    *,
    group: str,
    is_trans_a: bool = False,
    is_trans_b: bool = False,
    rank_size: int = 0,
    y_dtype: int = 28,
) -> tuple[Tensor, Tensor]:
    x1, x2 = x1.mT if is_trans_a else x1, x2.mT if is_trans_b else x2
    return quant_mm_reduce_scatter(x1, x2, group, rank_size, bias, x1_scale, x2_scale, from_attr(y_dtype))
