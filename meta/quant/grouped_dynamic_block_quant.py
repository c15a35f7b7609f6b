"""npu_grouped_dynamic_block_quant: what may be passed, and what comes back. Only Ascend 950 has it.

x is float16 or bfloat16 of two or three dimensions, not empty; group_list holds the int32 ends of groups of rows. A
block has 1, 128, 256 or 512 rows and 64, 128, 192 or 256 columns, and becomes float8 or, with round_mode "round",
HiFloat8, for which alone dst_type_max may be up to 32768.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from graph_quant.chip import ASCEND_950
from graph_quant.destination import HIFLOAT8, NARROW, Destination
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import Rules
from graph_quant.reference.quant.grouped_dynamic_block_quant import grouped_dynamic_block_quant as reference
from graph_quant.refusals import UndescribedError
from torch import Tensor

_ROWS, _COLUMNS = (1, 128, 256, 512), (64, 128, 192, 256)


@dataclass(frozen=True)
class GroupedBlockPlan(Plan):
    """``destination`` is what blocks become."""

    destination: Destination


@operator("npu_grouped_dynamic_block_quant", reference=reference, chips=(ASCEND_950,))
def grouped_dynamic_block_quant(
    rules: Rules,
    x: Tensor,
    group_list: Tensor,
    min_scale: float,
    round_mode: str,
    dst_type: int | torch.dtype,
    row_block_size: int,
    col_block_size: int,
    group_list_type: int,
    dst_type_max: float,
) -> GroupedBlockPlan:
    """The plan of a call that the documents and the kernel's checks allow; any other call is refused."""
    rules.dtype("x", x, (torch.float16, torch.bfloat16))
    rules.rank("x", x, 2, 3)
    rules.not_empty("x", x)
    rules.dtype("group_list", group_list, (torch.int32,))
    rules.rank("group_list", group_list, 1)
    rules.at_least("group_list.size(0)", group_list.size(0), 1)
    rules.require(min_scale >= 0, lambda: f"min_scale must not be negative, got {min_scale}")
    rules.one_of("row_block_size", row_block_size, _ROWS)
    rules.one_of("col_block_size", col_block_size, _COLUMNS)
    rules.one_of("group_list_type", group_list_type, (0,))
    destination = rules.destination("dst_type", dst_type, NARROW)
    modes = ("round", "hybrid") if destination is HIFLOAT8 else ("rint",)
    rules.one_of("round_mode", round_mode, modes, f" for {destination.name}")
    if round_mode == "hybrid":
        raise UndescribedError(f"{rules.op}: round_mode hybrid is not described for Ascend 950 yet")
    largest = HIFLOAT8.high if destination is HIFLOAT8 else 0
    rules.require(
        0 <= dst_type_max <= largest,
        lambda: f"dst_type_max must be from 0 to {largest} for {destination.name}, got {dst_type_max}",
    )
    rows = x.size(-2) // row_block_size + group_list.size(0)
    columns = (x.size(-1) + col_block_size - 1) // col_block_size
    scale = Result((*x.shape[:-2], rows, columns), torch.float32)
    return GroupedBlockPlan((Result(tuple(x.shape), destination.storage), scale), destination)
