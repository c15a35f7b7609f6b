"""npu_all_gather_base_mm: all-gather of the rows, then a matmul. Per-row scales are gathered with the rows.

npu_all_gather_quant_mm computes the same and returns a third, empty tensor: amax_output is reserved.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from graph_quant.ge import CONTRACTION, from_attr, kernel
from graph_quant.reference.collective.functional_collectives import group_all_gather
from graph_quant.reference.collective.local_matmul import float_or_scaled_matmul
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
    """The product and the gathered rows, which are empty without ``gather_output``."""
    rows = [input.size(0)] * world_size
    gathered = group_all_gather(input, rows, hcom)
    row_scale = None if x1_scale is None else group_all_gather(x1_scale, rows, hcom)
    product = float_or_scaled_matmul(gathered, x2, bias, row_scale, x2_scale, output)
    return product, gathered if gather_output else input.new_empty(0)


@functools.wraps(all_gather_base_mm)
def all_gather_quant_mm(**arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
    """The results of all_gather_base_mm and an empty tensor."""
    return *all_gather_base_mm(**arguments), arguments["input"].new_empty(0, dtype=torch.float32)


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
    scales = {"bias": None, "x1_scale": x1_scale, "x2_scale": x2_scale}
    attributes = {"world_size": rank_size, "gather_output": is_gather_out, "output": from_attr(y_dtype)}
    return all_gather_quant_mm(input=x1, x2=x2, hcom=group, **scales, **attributes)
