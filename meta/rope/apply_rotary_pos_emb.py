"""npu_apply_rotary_pos_emb: rules and results.

query and key are (B, S, heads, D), for layout TND (T, heads, D), cos and sin the same with one head; all of one dtype,
D 64 or 128 and that of cos no wider. A2 and A3 have the layouts BSND (also called BSH) and TND, and rotary_mode half.
"""

from __future__ import annotations

from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import FLOATS, Rules, sym_or
from graph_quant.reference.rope.apply_rotary_pos_emb import apply_rotary_pos_emb as reference
from torch import Tensor

RANKS = {"BSND": 4, "BSH": 4, "TND": 3}


@operator("npu_apply_rotary_pos_emb", reference=reference)
def apply_rotary_pos_emb(
    rules: Rules, query: Tensor, key: Tensor, cos: Tensor, sin: Tensor, layout: str, rotary_mode: str
) -> Plan:
    """Checks a call against the documented rules, and returns its plan."""
    rules.require(layout in RANKS, lambda: f"layout must be BSND, BSH or TND on A2 and A3, got {layout!r}")
    rules.require(rotary_mode == "half", lambda: f"rotary_mode must be 'half' on A2 and A3, got {rotary_mode!r}")
    rules.dtype("query", query, FLOATS)
    rank = RANKS[layout]
    tensors = {"query": query, "key": key, "cos": cos, "sin": sin}
    for name, tensor in tensors.items():
        rules.dtype(name, tensor, (query.dtype,), ", the dtype of query")
        rules.rank(name, tensor, rank, why=f" with layout {layout}")
        rules.not_empty(name, tensor)
        width = tensor.size(-1)
        rules.require(
            sym_or(width == 64, width == 128),
            lambda: f"{name}.size(-1) must be 64 or 128, got {width}",  # noqa: B023
        )
        for dim in range(rank - 2):
            rules.equal(f"{name}.size({dim})", tensor.size(dim), f"query.size({dim})", query.size(dim))
    rules.equal("key.size(-1)", key.size(-1), "query.size(-1)", query.size(-1))
    for name in ("cos", "sin"):
        rules.equal(f"{name}.size(-2)", tensors[name].size(-2), "1", 1)
    rules.equal("sin.size(-1)", sin.size(-1), "cos.size(-1)", cos.size(-1))
    rules.require(
        cos.size(-1) <= query.size(-1),
        lambda: f"cos.size(-1) must not exceed query.size(-1), got {cos.size(-1)} and {query.size(-1)}",
    )
    return Plan((Result(tuple(query.shape), query.dtype), Result(tuple(key.shape), key.dtype)))
