"""npu_group_norm_silu: argument rules and results.

input has two to eight dimensions, none empty; input.size(1) is a multiple of ``group``. weight and bias have
an element per channel and one dtype, that of input or float32. Results are y, like input, and mean and rstd in its
dtype.
"""

from __future__ import annotations

import torch
from graph_quant.meta.norm.rms import like
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import FLOATS, Rules
from graph_quant.reference.norm.layer_norm import group_norm_silu as reference
from torch import Tensor


@operator("npu_group_norm_silu", reference=reference)
def group_norm_silu(
    rules: Rules, x: Tensor, weight: Tensor | None, bias: Tensor | None, group: int, eps: float
) -> Plan:
    """Check a call against the documented rules and return its plan."""
    rules.dtype("input", x, FLOATS)
    rules.rank("input", x, 2, 8)
    rules.not_empty("input", x)
    rules.at_least("group", group, 1)
    channels = x.size(1)
    rules.require(channels % group == 0, lambda: f"input.size(1) must be a multiple of group, {group}, got {channels}")
    rules.require(eps > 0, lambda: f"eps must be above 0, got {eps}")
    kinds = tuple(dict.fromkeys((x.dtype, torch.float32)))
    for name, row in (("weight", weight), ("bias", bias)):
        if row is not None:
            rules.dtype(name, row, kinds, f" beside input of {x.dtype}")
            rules.rank(name, row, 1)
            rules.equal(f"{name}.size(0)", row.size(0), "input.size(1)", channels)
    if weight is not None and bias is not None:
        rules.dtype("bias", bias, (weight.dtype,), ", the dtype of weight")
    moment = Result((x.size(0), group), x.dtype)
    return Plan((like(x), moment, moment))
