"""npu_dynamic_block_quant: what may be passed, and what comes back.

x is float16 or bfloat16 of two or three dimensions, not empty. On A2 and A3 a block is 1 by 128 and becomes int8,
rounded to nearest; other blocks, destinations and rounding modes are for Ascend 950. min_scale is not negative.

There x is also float32, a block has 1, 64, 128, 256 or 512 rows and 64, 128, 192 or 256 columns, and becomes int8,
float8 or, with round_mode "round", HiFloat8, for which alone dst_type_max may be 15, 56, 224 or 32768.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from graph_quant.chip import A2_A3_950, ASCEND_950
from graph_quant.destination import HIFLOAT8, INT8, NARROW, SCALAR_TYPES, Destination
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import FLOATS, Rules
from graph_quant.reference.quant.dynamic_block_quant import COLUMNS
from graph_quant.reference.quant.dynamic_block_quant import dynamic_block_quant as reference
from graph_quant.refusals import UndescribedError
from torch import Tensor

_ROWS, _COLUMNS = (1, 64, 128, 256, 512), (64, 128, 192, 256)
_LARGEST = (0.0, 15.0, 56.0, 224.0, 32768.0)


@dataclass(frozen=True)
class BlockPlan(Plan):
    """``destination`` is what blocks become."""

    destination: Destination


@operator("npu_dynamic_block_quant", reference=reference, chips=A2_A3_950)
def dynamic_block_quant(
    rules: Rules,
    x: Tensor,
    min_scale: float,
    round_mode: str,
    dst_type: int | torch.dtype,
    row_block_size: int,
    col_block_size: int,
    dst_type_max: float,
) -> BlockPlan:
    """The plan of a call that the documents allow; any other call is refused."""
    if rules.chip is ASCEND_950:
        destination = rules.destination("dst_type", dst_type, (INT8, *NARROW))
        _check_950(rules, x, min_scale, round_mode, destination, row_block_size, col_block_size, dst_type_max)
        rows = (x.size(-2) + row_block_size - 1) // row_block_size
        columns = (x.size(-1) + col_block_size - 1) // col_block_size
        y = Result(tuple(x.shape), destination.storage)
        return BlockPlan((y, Result((*x.shape[:-2], rows, columns), torch.float32)), destination)
    rules.dtype("x", x, (torch.float16, torch.bfloat16))
    rules.rank("x", x, 2, 3)
    rules.not_empty("x", x)
    rules.require(min_scale >= 0, lambda: f"min_scale must not be negative, got {min_scale}")
    rules.one_of("round_mode", round_mode, ("rint",))
    kind = SCALAR_TYPES.get(dst_type) if isinstance(dst_type, int) else dst_type
    rules.require(kind == torch.int8, lambda: f"dst_type must be torch.int8 on A2 and A3, got {dst_type}")
    rules.one_of("row_block_size", row_block_size, (1,), why=" on A2 and A3")
    rules.one_of("col_block_size", col_block_size, (COLUMNS,), why=" on A2 and A3")
    rules.require(not dst_type_max, lambda: f"dst_type_max is for Ascend 950, leave it 0, got {dst_type_max}")
    blocks = (x.size(-1) + COLUMNS - 1) // COLUMNS
    return BlockPlan((Result(tuple(x.shape), torch.int8), Result((*x.shape[:-1], blocks), torch.float32)), INT8)


def _check_950(
    rules: Rules,
    x: Tensor,
    min_scale: float,
    round_mode: str,
    destination: Destination,
    row_block_size: int,
    col_block_size: int,
    dst_type_max: float,
) -> None:
    rules.dtype("x", x, FLOATS)
    rules.rank("x", x, 2, 3)
    rules.not_empty("x", x)
    rules.require(min_scale >= 0, lambda: f"min_scale must not be negative, got {min_scale}")
    mode = "round" if destination is HIFLOAT8 else "rint"
    rules.one_of("round_mode", round_mode, (mode,), f" for {destination.name}")
    rules.one_of("row_block_size", row_block_size, _ROWS)
    rules.one_of("col_block_size", col_block_size, _COLUMNS)
    maxima = _LARGEST if destination is HIFLOAT8 else (0.0,)
    rules.one_of("dst_type_max", dst_type_max, maxima, f" for {destination.name}")
    if destination is INT8 and min_scale > 0:
        raise UndescribedError(
            f"{rules.op}: int8 with a min_scale, which may overflow, is not described for Ascend 950"
        )
