"""npu_apply_rotary_pos_emb: rules and results.

query and key are (B, S, heads, D), for layout TND (T, heads, D), cos and sin the same with one head; all of one dtype,
D 64 or 128 and that of cos no wider. A2 and A3 have the layouts BSND (also called BSH) and TND, and rotary_mode half.

The heads of query and key together are at most 255, and those of one token fit a core's memory five times, or four
times if no core has more than one token: 76 and 95 heads of bfloat16 with D of 128.

Ascend 950 also has the layouts SBND and BNSD and the modes interleave and quarter. It takes any number of heads, each
even width up to 1024 (for quarter a multiple of four), and cos and sin with a batch of one.
"""

from __future__ import annotations

import torch
from graph_quant.chip import A2_A3_950, ASCEND_950
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import FLOATS, TILING_ERROR, Rules, sym_or
from graph_quant.reference.rope.apply_rotary_pos_emb import apply_rotary_pos_emb as reference
from graph_quant.reference.rope.apply_rotary_pos_emb import pair_modes
from graph_quant.reference.rope.rotation import QUARTER
from torch import Tensor
from torch.fx.experimental.symbolic_shapes import sym_and

RANKS = {"BSND": 4, "BSH": 4, "TND": 3}
# Of Ascend 950, by layout: the rank, and the dimensions of batch and heads.
LAYOUTS_950: dict[str, tuple[int, int | None, int]] = {
    "BSND": (4, 0, 2),
    "BSH": (4, 0, 2),
    "SBND": (4, 1, 2),
    "BNSD": (4, 0, 1),
    "TND": (3, None, 1),
}
WIDEST_950 = 1024
MOST_HEADS = 255
# Bytes of a vector core's memory, and vector cores of the smallest A2.
_MEMORY, _FEWEST_CORES = 192 * 1024, 40


@operator("npu_apply_rotary_pos_emb", reference=reference, chips=A2_A3_950)
def apply_rotary_pos_emb(
    rules: Rules, query: Tensor, key: Tensor, cos: Tensor, sin: Tensor, layout: str, rotary_mode: str
) -> Plan:
    """Checks a call against the documented rules, and returns its plan."""
    if rules.chip is ASCEND_950:
        return _plan_950(rules, query, key, cos, sin, layout, rotary_mode)
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
    _check_heads(rules, query, key, cos)
    return Plan((Result(tuple(query.shape), query.dtype), Result(tuple(key.shape), key.dtype)))


def _plan_950(
    rules: Rules, query: Tensor, key: Tensor, cos: Tensor, sin: Tensor, layout: str, rotary_mode: str
) -> Plan:
    rules.one_of("layout", layout, tuple(LAYOUTS_950))
    rules.one_of("rotary_mode", rotary_mode, pair_modes())
    rules.dtype("query", query, FLOATS)
    rank, batch, heads = LAYOUTS_950[layout]
    width, multiple = query.size(-1), 4 if rotary_mode == QUARTER else 2
    for name, tensor in (("query", query), ("key", key), ("cos", cos), ("sin", sin)):
        rules.dtype(name, tensor, (query.dtype,), ", the dtype of query")
        rules.rank(name, tensor, rank, why=f" with layout {layout}")
        rules.not_empty(name, tensor)
        size = tensor.size(-1)
        rules.require(
            size % multiple == 0,
            lambda: f"{name}.size(-1) must be a multiple of {multiple} in mode {rotary_mode}, got {size}",  # noqa: B023
        )
        for dim in set(range(rank - 1)) - {heads}:
            check = rules.one_or if tensor is cos and dim == batch else rules.equal
            if tensor is not sin:
                check(f"{name}.size({dim})", tensor.size(dim), f"query.size({dim})", query.size(dim))
    rules.require(width <= WIDEST_950, lambda: f"query.size(-1) must be at most {WIDEST_950}, got {width}")
    rules.equal("key.size(-1)", key.size(-1), "query.size(-1)", width)
    rules.equal(f"cos.size({heads})", cos.size(heads), "1", 1)
    for dim in range(rank):
        rules.equal(f"sin.size({dim})", sin.size(dim), f"cos.size({dim})", cos.size(dim))
    rules.require(
        cos.size(-1) <= width, lambda: f"cos.size(-1) must not exceed query.size(-1), got {cos.size(-1)} and {width}"
    )
    return Plan((Result(tuple(query.shape), query.dtype), Result(tuple(key.shape), key.dtype)))


def _check_heads(rules: Rules, query: Tensor, key: Tensor, cos: Tensor) -> None:
    """Check that the heads of a token fit a core, as the tiling counts: bfloat16 is widened to float32."""
    heads, width = query.size(-2) + key.size(-2), cos.size(-1)
    rules.require(
        heads <= MOST_HEADS,
        lambda: f"query.size(-2) + key.size(-2) must be at most {MOST_HEADS}, got {heads}",
        TILING_ERROR,
    )
    is_widened = query.dtype == torch.bfloat16
    size, computed_size = query.dtype.itemsize, torch.float32.itemsize if is_widened else query.dtype.itemsize
    row, angles = heads * width * computed_size, width * size
    widened_angles = 2 * width * computed_size if is_widened else 0
    tokens = query.numel() // (query.size(-1) * query.size(-2))
    rules.require(
        sym_or(
            5 * row + 4 * angles + widened_angles <= _MEMORY,
            sym_and(tokens <= _FEWEST_CORES, 4 * row + 2 * angles + widened_angles <= _MEMORY),
        ),
        lambda: f"query.size(-2) + key.size(-2) must fit {_MEMORY} bytes of a core, got {heads} heads of {width}",
        TILING_ERROR,
    )
