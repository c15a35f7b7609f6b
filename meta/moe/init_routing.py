"""npu_moe_init_routing: what may be passed, and what comes back.

x is (tokens, H); row_idx and expert_idx are (tokens, K), int32. No tensor is empty, and active_num is not negative.
"""

from __future__ import annotations

import torch
from graph_quant.chip import A2_A3_950
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import FLOATS, Rules
from graph_quant.reference.moe.init_routing import init_routing as reference
from torch import Tensor


@operator("npu_moe_init_routing", reference=reference, chips=A2_A3_950)
def init_routing(rules: Rules, x: Tensor, row_idx: Tensor, expert_idx: Tensor, active_num: int) -> Plan:
    """The plan of a call that the documents allow; any other call is refused."""
    rules.dtype("x", x, FLOATS)
    rules.rank("x", x, 2)
    rules.not_empty("x", x)
    for name, index in (("row_idx", row_idx), ("expert_idx", expert_idx)):
        rules.dtype(name, index, (torch.int32,))
        rules.rank(name, index, 2)
        rules.equal(f"{name}.size(0)", index.size(0), "x.size(0)", x.size(0))
        rules.at_least(f"{name}.size(1)", index.size(1), 1)
    rules.equal("expert_idx.size(1)", expert_idx.size(1), "row_idx.size(1)", row_idx.size(1))
    rules.at_least("active_num", active_num, 0)
    pairs = x.size(0) * row_idx.size(1)
    rules.require(pairs < 2**24, lambda: f"the number of pairs must be less than 2**24, got {pairs}")
    kept = torch.sym_min(active_num, x.size(0)) * row_idx.size(1)
    index_result = Result((pairs,), torch.int32)
    return Plan((Result((kept, x.size(1)), x.dtype), index_result, index_result))
