"""npu_clipped_swiglu: argument rules and results.

x has two dimensions at least, float32, float16 or bfloat16, and an even size in ``dim``; group_index is int64 (G,).
On Ascend 950 x must not be empty and limit must be positive.
"""

from __future__ import annotations

import torch
from graph_quant.chip import A2_A3_950, ASCEND_950
from graph_quant.meta.activation.swiglu import halve_shape
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import FLOATS, TILING_ERROR, Rules
from graph_quant.reference.activation.clipped_swiglu import clipped_swiglu as compute
from torch import Tensor

_MOST_GROUPS = 8192


@operator("npu_clipped_swiglu", reference=compute, chips=A2_A3_950)
def clipped_swiglu(
    rules: Rules,
    x: Tensor,
    group_index: Tensor | None,
    dim: int,
    alpha: float,  # noqa: ARG001
    limit: float,
    bias: float,  # noqa: ARG001
    interleaved: bool,  # noqa: ARG001
) -> Plan:
    """Check a call against the documented rules and return its plan."""
    rules.dtype("x", x, FLOATS)
    rules.rank("x", x, 2, 8)
    shape = halve_shape(rules, "x", x, dim)
    if rules.chip is ASCEND_950:
        rules.not_empty("x", x)
        rules.require(limit > 0, lambda: f"limit must be above 0 on Ascend 950, got {limit}", TILING_ERROR)
    if group_index is not None:
        rules.dtype("group_index", group_index, (torch.int64,))
        rules.rank("group_index", group_index, 1)
        count = group_index.size(0)
        rules.at_least("group_index.size(0)", count, 1)
        rules.require(count <= _MOST_GROUPS, lambda: f"group_index.size(0) must be at most {_MOST_GROUPS}, got {count}")
    return Plan((Result(shape, x.dtype),))
