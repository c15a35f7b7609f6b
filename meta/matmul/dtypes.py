"""The combinations of dtypes in npu_quant_matmul: a table by output, with and without per-token scales."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from graph_quant.destination import BFLOAT16, FLOAT16, INT8, INT32, Destination
from graph_quant.meta.rules import Rules

PACKED_OR_FLOAT = (torch.int64, torch.float32)
FLOAT_SCALES = (torch.float32, torch.bfloat16)


@dataclass(frozen=True)
class Accepts:
    """The dtypes that go with one output, with and without per-token scales."""

    scale: tuple[torch.dtype, ...]
    bias: tuple[torch.dtype, ...] = (torch.int32,)
    int4: bool = False


WITHOUT_TOKENS = {
    INT8: Accepts(PACKED_OR_FLOAT),
    FLOAT16: Accepts(PACKED_OR_FLOAT, int4=True),
    BFLOAT16: Accepts(FLOAT_SCALES, (torch.int32, torch.bfloat16, torch.float32)),
    INT32: Accepts(FLOAT_SCALES),
}
WITH_TOKENS = {
    FLOAT16: Accepts((torch.float32,), (torch.int32, torch.float16, torch.float32), int4=True),
    BFLOAT16: Accepts(FLOAT_SCALES, (torch.int32, torch.bfloat16, torch.float32), int4=True),
}


def accepts_for(rules: Rules, output: Destination, int4: bool, pertoken_scale: torch.Tensor | None) -> Accepts:
    """The row of the table for a call; an output without a row is refused."""
    table, tokens = (WITHOUT_TOKENS, "without") if pertoken_scale is None else (WITH_TOKENS, "with")
    allowed = [row for row, accepts in table.items() if accepts.int4 or not int4]
    operands = "int4 operands" if int4 else "int8 operands"
    rules.require(
        output in allowed,
        lambda: (
            f"output_dtype must be {' or '.join(str(row.storage) for row in allowed)} for {operands} {tokens} "
            f"pertoken_scale, got {output.storage}"
        ),
    )
    return table[output]
