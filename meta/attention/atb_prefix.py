"""ATB's _npu_flash_attention_prefix_v2 and npu_self_attention_prefix_encoder: the last tokens of sequences over pages.

Queries are (tokens, heads, channels), or with both in one, caches (blocks, 128, heads, channels) or with both in one,
of float16 or bfloat16. Lengths are numbers, those of keys by multiples of 128 above those of queries. Of the kinds of
masks causal needs none, a triangle is (128, 128), those for slopes, (heads,) float32, are (256, 256).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from graph_quant.meta import atb  # noqa: F401 (it defines the operators)
from graph_quant.meta.attention.atb import HALVES, check_heads, check_packed
from graph_quant.meta.attention.signatures import with_signature
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import Rules, Size
from graph_quant.reference.attention import atb_prefix as reference
from torch import Tensor

KINDS = {
    "mask_type_norm_compress": reference.TRIANGLE,
    "mask_type_alibi_compress": reference.SLOPES,
    "mask_type_alibi_compress_sort": reference.ROOTS,
    "mask_type_causal_mask": reference.CAUSAL,
}
HIGH_PRECISION = 1
MOST_CHANNELS, CHANNELS = 128, 16
ENCODER = ("query", "key", "value", "block_tables", "seqlen", "kv_seqlen", "q_headnum", "qk_scale", "kv_headnum")
OPTIONS = ("mask", "slopes", "mask_type")


@dataclass(frozen=True)
class PrefixPlan(Plan):
    """``kind`` is the number of the mask's kind."""

    kind: int


def _check(
    rules: Rules,
    query: Tensor,
    caches: dict[str, Tensor],
    table: tuple[str, Tensor],
    lengths: dict[str, Sequence[int]],
    heads: tuple[int, int],
    out: tuple[str, Tensor] | None,
) -> None:
    rules.dtype("query", query, HALVES)
    packed = {"query": (query, heads[0])} | ({out[0]: (out[1], heads[0])} if out else {})
    width = check_packed(rules, query, packed)["query"]
    if out is not None:
        rules.same_shape(*out, "query", query)
    for name, cache in caches.items():
        _check_cache(rules, name, cache, query, width, heads)
    (first, keys), (second, values) = caches.items()
    rules.same_shape(second, values, first, keys)
    rules.dtype(*table, (torch.int32,))
    rules.rank(*table, 2)
    for name, sequence_lengths in lengths.items():
        rules.equal(f"the number of {name}", len(sequence_lengths), f"{table[0]}.size(0)", table[1].size(0))


def _check_cache(rules: Rules, name: str, cache: Tensor, query: Tensor, width: Size, heads: tuple[int, int]) -> None:
    rules.dtype(name, cache, (query.dtype,), ", the dtype of query")
    rules.rank(name, cache, 3, 4)
    rules.equal(f"{name}.size(1)", cache.size(1), "the size of a block", reference.BLOCK)
    if cache.dim() == 4:
        rules.equal(f"{name}.size(2)", cache.size(2), "its heads", heads[1])
    own = cache.size(-1) * (heads[1] if cache.dim() == 4 else 1)
    rules.equal(f"the channels of {name}", own * heads[0], "the channels of query", width * heads[1])
    rules.require(
        (width <= MOST_CHANNELS * heads[0]) & (width % (CHANNELS * heads[0]) == 0),
        lambda: f"the channels of a head must be a multiple of {CHANNELS}, at most {MOST_CHANNELS}, got {width} in all",
    )


def _check_mask(
    rules: Rules, kind: int, query: Tensor, mask: Tensor | None, slopes: Tensor | None, num_heads: int
) -> None:
    if kind == reference.CAUSAL:
        rules.require(mask is None and slopes is None, lambda: "mask and slopes must be None for a causal mask")
        return
    if mask is None:
        rules.refuse("mask must be given, got None")
    side = reference.BLOCK if kind == reference.TRIANGLE else reference.SIDE
    rules.dtype("mask", mask, (query.dtype,), ", the dtype of query")
    rules.rank("mask", mask, 2, why=", the supported form")
    for dim in range(2):
        rules.equal(f"mask.size({dim})", mask.size(dim), "the rows and columns of such a mask", side)
    if kind == reference.TRIANGLE:
        return
    if slopes is None:
        rules.refuse("slopes must be given for a mask with slopes, got None")
    rules.dtype("slopes", slopes, (torch.float32,))
    rules.rank("slopes", slopes, 1)
    rules.equal("slopes.size(0)", slopes.size(0), "the heads of query", num_heads)


@operator("atb::_npu_flash_attention_prefix_v2.out", reference=reference.flash_attention_prefix_v2)
def flash_attention_prefix_v2(
    rules: Rules,
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    block_table: Tensor,
    mask: Tensor,
    seq_len: Sequence[int],
    context_lens: Sequence[int],
    slopes: Tensor | None,
    kernel_type: int,
    mask_type: int,
    num_kv_heads: int,
    num_heads: int,
    scale_value: float,  # noqa: ARG001 - any
    out: Tensor,
) -> Plan:
    """Checks a call against the rules of the library, and returns its plan."""
    rules.one_of("kernel_type", kernel_type, (HIGH_PRECISION,))
    rules.one_of("mask_type", mask_type, (reference.TRIANGLE, reference.SLOPES, reference.ROOTS))
    caches, lengths = {"key_cache": key_cache, "value_cache": value_cache}, {"seq_len": seq_len}
    lengths["context_lens"] = context_lens
    heads = (num_heads, num_kv_heads or num_heads)
    check_heads(rules, *heads)
    _check(rules, query, caches, ("block_table", block_table), lengths, heads, ("out", out))
    _check_mask(rules, mask_type, query, mask, slopes, num_heads)
    return Plan(("out",))


def _plan(rules: Rules, *values: Any) -> PrefixPlan:
    arguments = dict(zip((*ENCODER, *OPTIONS, "output"), values, strict=False))
    query, output = arguments["query"], arguments.get("output")
    rules.one_of("mask_type", arguments["mask_type"], (None, *KINDS))
    kind = KINDS[arguments["mask_type"] or "mask_type_causal_mask"]
    caches = {name: arguments[name] for name in ("key", "value")}
    lengths = {name: arguments[name] for name in ("seqlen", "kv_seqlen")}
    heads = (arguments["q_headnum"], arguments["kv_headnum"])
    check_heads(rules, *heads, ("q_headnum", "kv_headnum"))
    written = None if output is None else ("output", output)
    _check(rules, query, caches, ("block_tables", arguments["block_tables"]), lengths, heads, written)
    _check_mask(rules, kind, query, arguments["mask"], arguments["slopes"], heads[0])
    return PrefixPlan(("output",) if written else (Result(tuple(query.shape), query.dtype),), kind)


operator("atb::npu_self_attention_prefix_encoder", reference=reference.self_attention_prefix_encoder)(
    with_signature(("rules", *ENCODER, *OPTIONS), _plan)
)
operator("atb::npu_self_attention_prefix_encoder.out", reference=reference.self_attention_prefix_encoder_out)(
    with_signature(("rules", *ENCODER, *OPTIONS, "output"), _plan)
)
