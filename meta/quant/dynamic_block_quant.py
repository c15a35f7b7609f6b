"""npu_dynamic_block_quant: what may be passed, and what comes back.

x is float16 or bfloat16 of two or three dimensions, not empty. On A2 and A3 a block is 1 by 128 and becomes int8,
rounded to nearest; other blocks, destinations and rounding modes are for Ascend 950. min_scale is not negative.
"""

from __future__ import annotations

import torch
from graph_quant.destination import SCALAR_TYPES
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import Rules
from graph_quant.reference.quant.dynamic_block_quant import COLUMNS
from graph_quant.reference.quant.dynamic_block_quant import dynamic_block_quant as reference
from torch import Tensor


@operator("npu_dynamic_block_quant", reference=reference)
def dynamic_block_quant(
    rules: Rules,
    x: Tensor,
    min_scale: float,
    round_mode: str,
    dst_type: int | torch.dtype,
    row_block_size: int,
    col_block_size: int,
    dst_type_max: float,
) -> Plan:
    """The plan of a call that the documents allow; any other call is refused."""
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
    return Plan((Result(tuple(x.shape), torch.int8), Result((*x.shape[:-1], blocks), torch.float32)))
