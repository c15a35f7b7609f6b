"""npu_moe_gating_top_k_softmax and npu_moe_gating_top_k_softmax_v2: what may be passed, and what comes back.

x is (tokens, experts) or (batches, tokens, experts), finished a bool for each token, and k from 1 to 1024 and to the
number of experts. Ascend 950 takes at most 2048 experts; the second version is not described for it.
"""

from __future__ import annotations

import torch
from graph_quant.chip import A2_A3_950, ASCEND_950
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import FLOATS, TILING_ERROR, Rules
from graph_quant.reference.moe.gating_top_k_softmax import gating_top_k_softmax as reference
from graph_quant.reference.moe.gating_top_k_softmax import gating_top_k_softmax_v2 as reference_v2
from torch import Tensor

MOST_CHOSEN, MOST_EXPERTS_950 = 1024, 2048


@operator("npu_moe_gating_top_k_softmax", reference=reference, chips=A2_A3_950)
def gating_top_k_softmax(rules: Rules, x: Tensor, finished: Tensor | None, k: int) -> Plan:
    """The plan of a call that the documents allow; any other call is refused."""
    _check(rules, x, finished, k)
    chosen = (*x.shape[:-1], k)
    return Plan((Result(chosen, x.dtype), Result(chosen, torch.int32), Result(chosen, torch.int32)))


@operator("npu_moe_gating_top_k_softmax_v2", reference=reference_v2)
def gating_top_k_softmax_v2(
    rules: Rules, x: Tensor, k: int, finished: Tensor | None, renorm: int | None, output_softmax: bool | None
) -> Plan:
    """The plan of a call that the documents allow; any other call is refused. The softmax is an optional result."""
    _check(rules, x, finished, k)
    rules.one_of("renorm", renorm or 0, (0, 1))
    chosen = (*x.shape[:-1], k)
    scores = tuple(x.shape) if output_softmax and not renorm else (0,)
    return Plan((Result(chosen, x.dtype), Result(chosen, torch.int32), Result(scores, torch.float32)))


def _check(rules: Rules, x: Tensor, finished: Tensor | None, k: int) -> None:
    rules.dtype("x", x, FLOATS)
    rules.rank("x", x, 2, 3)
    if rules.chip is ASCEND_950:
        experts = x.size(-1)
        rules.require(
            experts <= MOST_EXPERTS_950,
            lambda: f"x.size(-1), the experts, must be at most {MOST_EXPERTS_950} on Ascend 950, got {experts}",
            TILING_ERROR,
        )
    rules.at_least("k", k, 1)
    rules.require(k <= MOST_CHOSEN, lambda: f"k must be at most {MOST_CHOSEN}, got {k}")
    rules.require(k <= x.size(-1), lambda: f"k must be no more than x.size(-1), the experts, got {k} and {x.size(-1)}")
    if finished is not None:
        rules.dtype("finished", finished, (torch.bool,))
        rules.rank("finished", finished, x.dim() - 1)
        for dim in range(x.dim() - 1):
            rules.equal(f"finished.size({dim})", finished.size(dim), f"x.size({dim})", x.size(dim))
