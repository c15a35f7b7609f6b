"""npu_mla_prolog and npu_mla_prolog_v2: rules and results. See ``mla_prolog_rules``."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from graph_quant.meta.attention import mla_prolog_rules
from graph_quant.meta.attention.signatures import with_signature
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import Rules
from graph_quant.reference.attention.mla_prolog_node import mla_prolog_node, mla_prolog_v2_node


def _plan(rules: Rules, arguments: dict[str, Any], has_scale: bool) -> Plan:
    mla_prolog_rules.check(rules, arguments, mla_prolog_rules.FIRST_MODES, is_third=False)
    if not has_scale and arguments["token_x"].dtype == torch.int8 and arguments["kv_cache"].dtype == torch.int8:
        rules.refuse("kv_cache must be torch.bfloat16 beside an int8 token_x in the first version, got torch.int8")
    query, rope, scale, _, _ = mla_prolog_rules.results(arguments, query_norm_flag=False, no_scale=1)
    caches = tuple(Result(tuple(arguments[name].shape), arguments[name].dtype) for name in ("kv_cache", "kr_cache"))
    return Plan((query, rope, *caches, scale) if has_scale else (query, rope, *caches))


def _rules(node: Callable[..., Any], has_scale: bool) -> Callable[..., Plan]:
    """The node's parameters are the schema's, in another order of keywords only."""
    names = tuple(inspect.signature(node).parameters)

    def rules_of(rules: Rules, *values: Any) -> Plan:
        return _plan(rules, dict(zip(names, values, strict=True)), has_scale)

    return with_signature(("rules", *names), rules_of)


mla_prolog = operator("npu_mla_prolog", reference=mla_prolog_node)(_rules(mla_prolog_node, has_scale=False))
mla_prolog_v2 = operator("npu_mla_prolog_v2", reference=mla_prolog_v2_node)(_rules(mla_prolog_v2_node, has_scale=True))
