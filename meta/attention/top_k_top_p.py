"""npu_top_k_top_p: rules and results. logits is (rows, vocabulary); p and k have one a row."""

from __future__ import annotations

import torch
from graph_quant.chip import A2_A3_950
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import FLOATS, Rules
from graph_quant.reference.attention.top_k_top_p import top_k_top_p as reference
from torch import Tensor


@operator("npu_top_k_top_p", reference=reference, chips=A2_A3_950)
def top_k_top_p(rules: Rules, logits: Tensor, p: Tensor | None, k: Tensor | None) -> Plan:
    """Checks a call against the documented rules, and returns its plan."""
    rules.dtype("logits", logits, FLOATS)
    rules.rank("logits", logits, 2)
    if p is None and k is None:
        rules.refuse("p or k must be given, got None for both")
    for name, limit, dtype in (("p", p, logits.dtype), ("k", k, torch.int32)):
        if limit is not None:
            rules.dtype(name, limit, (dtype,))
            rules.rank(name, limit, 1)
            rules.equal(f"{name}.size(0)", limit.size(0), "logits.size(0)", logits.size(0))
    return Plan((Result(tuple(logits.shape), logits.dtype),))
