"""npu_mm_reduce_scatter_base: a matmul on each rank, then a reduce-scatter of its rows.

The product is rounded to the dtype of the result. Ranks add in that dtype and round after each addition.
npu_quant_mm_reduce_scatter computes the same and returns a second, empty tensor: amax_output is reserved.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from graph_quant.ge import CONTRACTION, from_attr, kernel
from graph_quant.reference.collective.functional_collectives import group_reduce_scatter
from graph_quant.reference.collective.local_matmul import float_or_scaled_matmul
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
    """The rows of this rank in the sum over all ranks."""
    product = float_or_scaled_matmul(input, x2, bias, x1_scale, x2_scale, output)
    kept = product.size(0) // world_size
    return group_reduce_scatter(product, "sum", [kept] * world_size, kept, hcom)


@functools.wraps(mm_reduce_scatter_base)
def quant_mm_reduce_scatter(**arguments: Any) -> tuple[Tensor, Tensor]:
    """The result of mm_reduce_scatter_base and an empty tensor."""
    return mm_reduce_scatter_base(**arguments), arguments["input"].new_empty(0, dtype=torch.float32)


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
    scales = {"bias": bias, "x1_scale": x1_scale, "x2_scale": x2_scale}
    attributes = {"world_size": rank_size, "output": from_attr(y_dtype)}
    return quant_mm_reduce_scatter(input=x1, x2=x2, hcom=group, **scales, **attributes)
