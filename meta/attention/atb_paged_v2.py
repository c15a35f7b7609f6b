"""ATB's _npu_paged_attention_v2 with its workspace query: lengths are numbers, and a mask may be added to the scores.

Tensors as for _npu_paged_attention. ``mask_type`` 2 takes a mask of query's dtype, (sequences, heads, 1, keys) or
(heads, 1, keys), as long as the longest sequence; 0 none. Without ``num_kv_heads`` there are as many as ``num_heads``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from graph_quant.meta import atb  # noqa: F401 (it defines the operators)
from graph_quant.meta.attention.atb import check_paged, check_workspace
from graph_quant.meta.attention.signatures import with_signature
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import Rules
from graph_quant.reference.attention import atb as reference
from torch import Tensor

NO_MASK, ALIBI = 0, 2
NAMES = (
    "query", "key_cache", "block_table", "context_lens", "value_cache", "mask", "num_kv_heads", "num_heads",
    "scale_value", "mask_type", "workspace", "out",
)  # fmt: skip


@dataclass(frozen=True)
class MaskedPlan(Plan):
    """``has_mask``: the mask is added; otherwise the library ignores it."""

    has_mask: bool


def _check_mask(rules: Rules, query: Tensor, mask: Tensor | None) -> None:
    if mask is None:
        rules.refuse(f"mask must be given in mask_type {ALIBI}, got None")
    rules.dtype("mask", mask, (query.dtype,), ", the dtype of query")
    rules.rank("mask", mask, 3, 4)
    rules.equal("mask.size(-3)", mask.size(-3), "query.size(1)", query.size(1))
    rules.equal("mask.size(-2)", mask.size(-2), "one token", 1)
    if mask.dim() == 4:
        rules.equal("mask.size(0)", mask.size(0), "query.size(0)", query.size(0))


def _plan(rules: Rules, *values: Any) -> MaskedPlan:
    arguments = dict(zip(NAMES, values, strict=True))
    query, value_cache, heads = arguments["query"], arguments["value_cache"], arguments["num_heads"]
    if value_cache is None:
        rules.refuse("value_cache must be given, got None")
    tensors = (query, arguments["key_cache"], value_cache)
    check_paged(rules, *tensors, arguments["num_kv_heads"] or heads, heads, arguments["block_table"], arguments["out"])
    rules.equal("the number of context_lens", len(arguments["context_lens"]), "query.size(0)", query.size(0))
    check_workspace(rules, arguments["workspace"])
    rules.one_of("mask_type", arguments["mask_type"], (NO_MASK, ALIBI))
    has_mask = arguments["mask_type"] == ALIBI
    if has_mask:
        _check_mask(rules, query, arguments["mask"])
    return MaskedPlan(("out",), has_mask)


def _plan_workspace(rules: Rules, *values: Any) -> Plan:
    """The same call, asked how much room it needs: none here."""
    *arguments, out = values
    _plan(rules, *arguments, None, out)
    return Plan((Result((0,), torch.uint8),))


operator("atb::_npu_paged_attention_v2.out", reference=reference.paged_attention_v2)(
    with_signature(("rules", *NAMES), _plan)
)
operator("atb::_npu_paged_attention_v2_get_workspace", reference=reference.empty_workspace)(
    with_signature(("rules", *(name for name in NAMES if name != "workspace")), _plan_workspace)
)
