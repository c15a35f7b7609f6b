"""npu_all_gather_base_mm: the rows of all ranks, and their product. The scales of rows are gathered with them.

npu_all_gather_quant_mm is the same, and has a third result that is not computed today.
"""

from __future__ import annotations

import torch
from graph_quant.ge import CONTRACTION, from_attr, kernel
from graph_quant.reference.collective.functional_collectives import group_all_gather
from graph_quant.reference.collective.local_matmul import float_matmul, scaled_matmul
from torch import Tensor


def all_gather_base_mm(
    input: Tensor,  # noqa: A002  (the schema's name)
    x2: Tensor,
    hcom: str,
    world_size: int,
    bias: Tensor | None,
    x1_scale: Tensor | None,
    x2_scale: Tensor | None,
    gather_output: bool,
    output: torch.dtype,
) -> tuple[Tensor, Tensor]:
    """The product, and what was gathered or nothing."""
    rows = [input.size(0)] * world_size
    gathered = group_all_gather(input, rows, hcom)
    if x2_scale is None:
        product = float_matmul(gathered, x2, bias)
    else:
        tokens = None if x1_scale is None else group_all_gather(x1_scale, rows, hcom)
        product = scaled_matmul(gathered, x2, tokens, x2_scale, None, output)
    return product, gathered if gather_output else input.new_empty(0)


def all_gather_quant_mm(
    input: Tensor,  # noqa: A002  (the schema's name)
    x2: Tensor,
    hcom: str,
    world_size: int,
    x1_scale: Tensor | None,
    x2_scale: Tensor | None,
    gather_output: bool,
    output: torch.dtype,
) -> tuple[Tensor, Tensor, Tensor]:
    """The product, what was gathered or nothing, and nothing."""
    both = all_gather_base_mm(input, x2, hcom, world_size, None, x1_scale, x2_scale, gather_output, output)
    return *both, input.new_empty(0, dtype=torch.float32)


@kernel("AllGatherMatmul", flops=CONTRACTION, idle=("comm_turn",))
def all_gather_mm_node(
    x1: Tensor,
    x2: Tensor,
    bias: Tensor | None = None,
    *,
    group: str,
    is_trans_a: bool = False,
    is_trans_b: bool = False,
    rank_size: int = 0,
    is_gather_out: bool = True,
) -> tuple[Tensor, Tensor]:
    x1, x2 = x1.mT if is_trans_a else x1, x2.mT if is_trans_b else x2
    return all_gather_base_mm(x1, x2, group, rank_size, bias, None, None, is_gather_out, x1.dtype)


@kernel("AllGatherMatmulV2", flops=CONTRACTION, idle=("comm_turn", "comm_mode"))
def all_gather_mm_v2_node(
    x1: Tensor,
    x2: Tensor,
    x1_scale: Tensor | None = None,
    x2_scale: Tensor | None = None,
    *,
    group: str,
    is_trans_a: bool = False,
    is_trans_b: bool = False,
    rank_size: int = 0,
    is_gather_out: bool = True,
    y_dtype: int = 0,
) -> tuple[Tensor, Tensor, Tensor]:
    x1, x2 = x1.mT if is_trans_a else x1, x2.mT if is_trans_b else x2
    return all_gather_quant_mm(x1, x2, group, rank_size, x1_scale, x2_scale, is_gather_out, from_attr(y_dtype))
