"""npu_dequant_bias: what may be passed, and what comes back.

x is int32 (m, n), m at most 25000. weight_scale (n,) is float32 for float16 results, bfloat16 for bfloat16 ones;
activation_scale (m,) is float32; bias (n,) is int32 or floating.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from graph_quant.destination import BFLOAT16, FLOAT16, Destination
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import FLOATS, Rules
from graph_quant.reference.quant.dequant_bias import dequant_bias as reference
from torch import Tensor

MOST_ROWS = 25000
SCALES = {FLOAT16: torch.float32, BFLOAT16: torch.bfloat16}


@dataclass(frozen=True)
class DequantBiasPlan(Plan):
    """``output`` is the dtype of the result."""

    output: Destination


@operator("npu_dequant_bias", reference=reference)
def dequant_bias(
    rules: Rules,
    x: Tensor,
    weight_scale: Tensor,
    activation_scale: Tensor | None,
    bias: Tensor | None,
    output_dtype: torch.dtype | int | None,
) -> DequantBiasPlan:
    """The plan of a call that the documents allow; any other call is refused."""
    output = FLOAT16 if output_dtype is None else rules.destination("output_dtype", output_dtype, (FLOAT16, BFLOAT16))
    rules.dtype("x", x, (torch.int32,))
    rules.rank("x", x, 2)
    rules.not_empty("x", x)
    rules.require(x.size(0) <= MOST_ROWS, lambda: f"x.size(0) must be at most {MOST_ROWS}, got {x.size(0)}")
    rules.dtype("weight_scale", weight_scale, (SCALES[output],), f" for {output.storage} results")
    for name, row, dim in (
        ("weight_scale", weight_scale, 1),
        ("activation_scale", activation_scale, 0),
        ("bias", bias, 1),
    ):
        if row is not None:
            rules.rank(name, row, 1)
            rules.equal(f"{name}.size(0)", row.size(0), f"x.size({dim})", x.size(dim))
    if activation_scale is not None:
        rules.dtype("activation_scale", activation_scale, (torch.float32,))
    if bias is not None:
        rules.dtype("bias", bias, (torch.int32, *FLOATS))
    return DequantBiasPlan((Result(tuple(x.shape), output.storage),), output)
