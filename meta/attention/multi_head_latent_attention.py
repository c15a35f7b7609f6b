"""ATB's npu_multi_head_latent_attention, its variants with log-sum-exp and its workspace query: rules.

Queries are (sequences, heads, 512) and (sequences, heads, 64), caches (blocks, 128, 1, 512) and (blocks, 128, 1, 64),
or, as "nzcache", in parts of 16 channels; float16 or bfloat16, all of one dtype. Several tokens of a sequence, and
caches of int8, are not supported.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from graph_quant.meta import atb  # noqa: F401 (it defines the operators)
from graph_quant.meta.attention.atb import HALVES, check_workspace
from graph_quant.meta.attention.ring_mla import check_shape
from graph_quant.meta.attention.signatures import with_signature
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import Rules
from graph_quant.reference.attention import multi_head_latent_attention as reference

LATENT, ROTATED, PART = 512, 64, 16
HEADS = (8, 16, 32, 64, 128)
MOST_SEQUENCES = 8192
TENSORS = (
    "q_nope", "q_rope", "ctkv", "k_rope", "block_tables", "context_lens", "q_headnum", "qk_scale", "kv_headnum",
)  # fmt: skip
OPTIONS = ("mask", "qseqlen", "qk_descale", "pv_descale", "mask_type", "calc_type", "cache_mode")
PLAIN = (*TENSORS, *OPTIONS)
WITH_LSE = (*TENSORS, "return_lse", *OPTIONS)


@dataclass(frozen=True)
class LatentPlan(Plan):
    """``has_lse``: the log-sum-exp is returned."""

    has_lse: bool


def _check_caches(rules: Rules, arguments: dict[str, Any]) -> None:
    in_parts = arguments["cache_mode"] == "nzcache"
    for name, width in {"ctkv": LATENT, "k_rope": ROTATED}.items():
        rules.dtype(name, arguments[name], (arguments["q_nope"].dtype,), ", the dtype of q_nope")
        blocks = arguments["ctkv"].size(0)
        block = (width // PART, reference.BLOCK, PART) if in_parts else (reference.BLOCK, 1, width)
        check_shape(rules, name, arguments[name], (blocks, *block))


def _check(rules: Rules, arguments: dict[str, Any], calc_types: tuple[str, ...]) -> bool:
    """Checks a call; returns whether it belongs to a ring, which has a log-sum-exp."""
    heads, query, scale = arguments["q_headnum"], arguments["q_nope"], arguments["qk_scale"]
    rules.one_of("q_headnum", heads, HEADS)
    rules.equal("kv_headnum", arguments["kv_headnum"], "one head of keys", 1)
    rules.require(0 < scale <= 1, lambda: f"qk_scale must lie in (0, 1], got {scale}")
    if arguments["cache_mode"] == "int8_nzcache":
        rules.refuse(
            "cache_mode 'int8_nzcache' is missing on the host NPU, though devices take it; use 'nzcache' with a cache "
            "of q_nope's dtype"
        )
    supported = {"mask_type": ("undefined",), "calc_type": calc_types, "cache_mode": ("krope_ctkv", "nzcache")}
    for name, allowed in supported.items():
        if arguments[name] is not None:
            rules.one_of(name, arguments[name], allowed)
    rules.dtype("q_nope", query, HALVES)
    check_shape(rules, "q_nope", query, (query.size(0), heads, LATENT))
    rules.dtype("q_rope", arguments["q_rope"], (query.dtype,), ", the dtype of q_nope")
    check_shape(rules, "q_rope", arguments["q_rope"], (query.size(0), heads, ROTATED))
    _check_caches(rules, arguments)
    table = arguments["block_tables"]
    rules.dtype("block_tables", table, (torch.int32,))
    check_shape(rules, "block_tables", table, (query.size(0), table.size(-1)))
    rules.require(
        query.size(0) <= MOST_SEQUENCES, lambda: f"q_nope.size(0) must be at most {MOST_SEQUENCES}, got {query.size(0)}"
    )
    rules.equal("the number of context_lens", len(arguments["context_lens"]), "q_nope.size(0)", query.size(0))
    return bool(arguments["calc_type"] == "calc_type_ring")


def _plan(rules: Rules, *values: Any) -> Plan:
    arguments = dict(zip(PLAIN, values, strict=True))
    _check(rules, arguments, ("calc_type_undefined",))
    return Plan((Result(tuple(arguments["q_nope"].shape), arguments["q_nope"].dtype),))


def _plan_into(rules: Rules, *values: Any) -> Plan:
    *arguments, output = values
    _plan(rules, *arguments)
    rules.like("output", output, "q_nope", arguments[0])
    return Plan(("output",))


def _plan_lse(rules: Rules, *values: Any) -> LatentPlan:
    *arguments, workspace = values
    named = dict(zip(WITH_LSE, arguments, strict=True))
    is_ring = _check(rules, named, ("calc_type_undefined", "calc_type_ring"))
    check_workspace(rules, workspace)
    has_lse, query = is_ring and named["return_lse"], named["q_nope"]
    lse = Result((query.size(0), query.size(1), 1), query.dtype) if has_lse else None
    return LatentPlan((Result(tuple(query.shape), query.dtype), lse), has_lse)


def _plan_lse_into(rules: Rules, *values: Any) -> LatentPlan:
    *arguments, output, lse = values
    plan = _plan_lse(rules, *arguments)
    named = dict(zip(WITH_LSE, arguments[:-1], strict=True))
    rules.require(named["return_lse"], lambda: "return_lse must be True where lse is given, got False")
    query = named["q_nope"]
    rules.like("output", output, "q_nope", query)
    rules.dtype("lse", lse, (query.dtype,), ", the dtype of q_nope")
    check_shape(rules, "lse", lse, (query.size(0), query.size(1), 1))
    return LatentPlan(("output", "lse"), plan.has_lse)


def _plan_workspace(rules: Rules, *values: Any) -> Plan:
    """The plan of a workspace query: the host needs none."""
    _plan_lse(rules, *values, None)
    return Plan((Result((0,), torch.uint8),))


operator("atb::npu_multi_head_latent_attention", reference=reference.compute)(with_signature(("rules", *PLAIN), _plan))
operator("atb::npu_multi_head_latent_attention.out", reference=reference.write_output)(
    with_signature(("rules", *PLAIN, "output"), _plan_into)
)
operator("atb::npu_multi_head_latent_attention.lse", reference=reference.compute_with_lse)(
    with_signature(("rules", *WITH_LSE, "workspace"), _plan_lse)
)
operator("atb::npu_multi_head_latent_attention.lse_out", reference=reference.write_output_and_lse)(
    with_signature(("rules", *WITH_LSE, "workspace", "output", "lse"), _plan_lse_into)
)
operator("atb::_npu_multi_head_latent_attention_get_workspace.lse", reference=reference.workspace)(
    with_signature(("rules", *WITH_LSE), _plan_workspace)
)
