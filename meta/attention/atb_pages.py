"""ATB's attention of several tokens of each sequence over a paged cache, and with one cache for keys and values.

Query and out are (tokens, heads, channels), or with heads and channels in one; the rest as for _npu_paged_attention.
"""

from __future__ import annotations

import torch
from graph_quant.meta import atb  # noqa: F401 (it defines the operators)
from graph_quant.meta.attention.atb import HALVES, check_heads, check_lengths, check_packed
from graph_quant.meta.operator import Plan, operator
from graph_quant.meta.rules import Rules
from graph_quant.reference.attention import atb_pages as reference
from torch import Tensor

TRIANGLE = 128
_LENGTHS = ("context_lens", "seq_len")


def _check_caches(rules: Rules, query: Tensor, caches: dict[str, Tensor], num_kv_heads: int) -> None:
    key_cache = caches["key_cache"]
    for name, tensor in caches.items():
        rules.dtype(name, tensor, (query.dtype,), ", the dtype of query")
        rules.rank(name, tensor, 4)
        rules.equal(f"{name}.size(2)", tensor.size(2), "its heads", num_kv_heads)
        for dim in range(2):
            rules.equal(f"{name}.size({dim})", tensor.size(dim), f"key_cache.size({dim})", key_cache.size(dim))


def _check_pages(
    rules: Rules,
    query: Tensor,
    caches: tuple[Tensor, Tensor],
    block_table: Tensor,
    lengths: dict[str, Tensor],
    heads: tuple[int, int],
    out: Tensor,
) -> None:
    check_heads(rules, *heads)
    rules.dtype("query", query, HALVES)
    key_cache, value_cache = caches
    _check_caches(rules, query, {"key_cache": key_cache, "value_cache": value_cache}, heads[1])
    widths = check_packed(rules, query, {"query": (query, heads[0]), "out": (out, heads[0])})
    rules.equal("key_cache.size(3)", key_cache.size(3) * heads[0], "the channels of query", widths["query"])
    rules.equal("value_cache.size(3)", value_cache.size(3) * heads[0], "the channels of out", widths["out"])
    rules.dtype("block_table", block_table, (torch.int32,))
    rules.rank("block_table", block_table, 2)
    for name, tensor in lengths.items():
        check_lengths(rules, name, tensor)
        rules.equal(f"{name}.size(0)", tensor.size(0), "block_table.size(0)", block_table.size(0))


@operator("atb::_npu_paged_attention_splitfuse", reference=reference.paged_attention_splitfuse, on_any_device=_LENGTHS)
def splitfuse(
    rules: Rules,
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    block_table: Tensor,
    context_lens: Tensor,
    mask: Tensor,
    seq_len: Tensor,
    num_kv_heads: int,
    num_heads: int,
    scale_value: float,  # noqa: ARG001
    out: Tensor,
) -> Plan:
    """Checks a call against the rules of the library, and returns its plan."""
    lengths = {"context_lens": context_lens, "seq_len": seq_len}
    heads = (num_heads, num_kv_heads)
    _check_pages(rules, query, (key_cache, value_cache), block_table, lengths, heads, out)
    rules.dtype("mask", mask, (query.dtype,), ", the dtype of query")
    rules.rank("mask", mask, 2)
    rules.equal("mask.size(0)", mask.size(0), "query.size(0)", query.size(0))
    return Plan(())


@operator("atb::_npu_flash_attention_qlens", reference=reference.flash_attention_qlens, on_any_device=_LENGTHS)
def qlens(
    rules: Rules,
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    block_table: Tensor,
    mask: Tensor,
    seq_len: Tensor,
    context_lens: Tensor,
    num_kv_heads: int,
    num_heads: int,
    scale_value: float,  # noqa: ARG001
    out: Tensor,
) -> Plan:
    """Checks a call against the rules of the library, and returns its plan."""
    lengths = {"seq_len": seq_len, "context_lens": context_lens}
    heads = (num_heads, num_kv_heads)
    _check_pages(rules, query, (key_cache, value_cache), block_table, lengths, heads, out)
    rules.dtype("mask", mask, (query.dtype,), ", the dtype of query")
    rules.require(
        list(mask.shape) == [TRIANGLE, TRIANGLE],
        lambda: f"mask must be ({TRIANGLE}, {TRIANGLE}), got {list(mask.shape)}",
    )
    return Plan(())


@operator("atb::_npu_paged_attention_mla", reference=reference.paged_mla, on_any_device=("context_lens",))
def paged_mla(
    rules: Rules,
    query: Tensor,
    key_cache: Tensor,
    num_kv_heads: int,
    num_heads: int,
    scale_value: float,  # noqa: ARG001
    block_table: Tensor,
    context_lens: Tensor,
    mla_vheadsize: int,
    out: Tensor,
) -> Plan:
    """Checks a call against the rules of the library, and returns its plan."""
    width = key_cache.size(-1)
    rules.require(
        0 < mla_vheadsize <= width, lambda: f"mla_vheadsize must lie in [1, {width}], the channels, got {mla_vheadsize}"
    )
    rules.rank("query", query, 3)
    rules.rank("key_cache", key_cache, 4)
    caches = (key_cache, key_cache[..., :mla_vheadsize])
    heads = (num_heads, num_kv_heads)
    _check_pages(rules, query, caches, block_table, {"context_lens": context_lens}, heads, out)
    rules.equal("block_table.size(0)", block_table.size(0), "query.size(0)", query.size(0))
    return Plan(())
