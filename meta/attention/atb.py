"""Rules of ATB's _npu_paged_attention with its workspace query, and of _npu_flash_attention and its variants.

Queries, keys, values and out are float16 or bfloat16, all of one dtype. Paged: query and out are (sequences, heads,
channels), the caches (blocks, block size, key heads, channels), block_table (sequences, columns), context_lens has one
length per sequence. Packed: query, key, value and out are (tokens, heads, channels) or (tokens, heads * channels), mask
is a square of the longest sequence, shared or one per sequence, and seq_len has one length per sequence. Lengths are
int32, and may be on the CPU.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch
from graph_quant.meta import atb  # noqa: F401 (it defines the operators)
from graph_quant.meta.attention.signatures import with_signature
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import Rules, Size
from graph_quant.reference.attention import atb as reference
from torch import Tensor

HALVES = (torch.float16, torch.bfloat16)
MOST_CHANNELS = 576
WIDE, MOST_IN_WIDE_BLOCK = 256, 128


def check_heads(
    rules: Rules, num_heads: int, num_kv_heads: int, names: tuple[str, str] = ("num_heads", "num_kv_heads")
) -> None:
    rules.at_least(names[1], num_kv_heads, 1)
    rules.require(
        num_heads > 0 and num_heads % num_kv_heads == 0,
        lambda: f"{names[0]} must be a multiple of {names[1]}, {num_kv_heads}, got {num_heads}",
    )


def check_lengths(rules: Rules, name: str, lengths: Tensor) -> None:
    rules.dtype(name, lengths, (torch.int32,))
    rules.rank(name, lengths, 1)


def _check_channels(rules: Rules, name: str, cache: Tensor) -> None:
    _, size, _, width = cache.shape
    rules.require(width <= MOST_CHANNELS, lambda: f"{name}.size(-1) must be at most {MOST_CHANNELS}, got {width}")
    rules.require(
        width <= WIDE or size <= MOST_IN_WIDE_BLOCK,
        lambda: f"{name}.size(1) must be at most {MOST_IN_WIDE_BLOCK} above {WIDE} channels, got {size}",
    )


def check_paged(
    rules: Rules,
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    num_kv_heads: int,
    num_heads: int,
    block_table: Tensor,
    out: Tensor,
) -> None:
    check_heads(rules, num_heads, num_kv_heads)
    rules.dtype("query", query, HALVES)
    named = {"query": (query, num_heads, 3), "key_cache": (key_cache, num_kv_heads, 4)}
    named |= {"value_cache": (value_cache, num_kv_heads, 4), "out": (out, num_heads, 3)}
    for name, (tensor, heads, rank) in named.items():
        rules.dtype(name, tensor, (query.dtype,), ", the dtype of query")
        rules.rank(name, tensor, rank)
        rules.equal(f"{name}.size(-2)", tensor.size(-2), "its heads", heads)
        if rank == 4:
            _check_channels(rules, name, tensor)
    rules.equal("key_cache.size(-1)", key_cache.size(-1), "query.size(-1)", query.size(-1))
    for dim in range(2):
        rules.equal(f"value_cache.size({dim})", value_cache.size(dim), f"key_cache.size({dim})", key_cache.size(dim))
    rules.equal("out.size(0)", out.size(0), "query.size(0)", query.size(0))
    rules.equal("out.size(-1)", out.size(-1), "value_cache.size(-1)", value_cache.size(-1))
    rules.dtype("block_table", block_table, (torch.int32,))
    rules.rank("block_table", block_table, 2)
    rules.equal("block_table.size(0)", block_table.size(0), "query.size(0)", query.size(0))


def check_workspace(rules: Rules, workspace: Tensor | None) -> None:
    if workspace is not None:
        rules.dtype("workspace", workspace, (torch.uint8,))


def _plan_paged(
    rules: Rules,
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    num_kv_heads: int,
    num_heads: int,
    scale_value: float,  # noqa: ARG001
    block_table: Tensor,
    context_lens: Tensor,
    out: Tensor,
    workspace: Tensor | None,
) -> Plan:
    """Checks a call against the rules of the library, and returns its plan."""
    check_paged(rules, query, key_cache, value_cache, num_kv_heads, num_heads, block_table, out)
    check_lengths(rules, "context_lens", context_lens)
    rules.equal("context_lens.size(0)", context_lens.size(0), "query.size(0)", query.size(0))
    check_workspace(rules, workspace)
    return Plan(())


def _plan_workspace(rules: Rules, *values: Any) -> Plan:
    """The plan of a workspace query: the host needs none."""
    _plan_paged(rules, *[*values, None])
    return Plan((Result((0,), torch.uint8),))


operator("atb::_npu_paged_attention", reference=reference.paged_attention, on_any_device=("context_lens",))(_plan_paged)
operator(
    "atb::_npu_paged_attention_get_workspace", reference=reference.empty_workspace, on_any_device=("context_lens",)
)(with_signature(tuple(inspect.signature(_plan_paged).parameters)[:-1], _plan_workspace))


def check_packed(rules: Rules, query: Tensor, heads: dict[str, tuple[Tensor, int]]) -> dict[str, Size]:
    """Checks packed tensors, (token, head, channel) or (token, head * channel); returns their heads * channels."""
    widths: dict[str, Size] = {}
    for name, (tensor, count) in heads.items():
        rules.dtype(name, tensor, (query.dtype,), ", the dtype of query")
        rules.rank(name, tensor, 2, 3)
        rules.equal(f"{name}.size(0)", tensor.size(0), "query.size(0)", query.size(0))
        if tensor.dim() == 3:
            rules.equal(f"{name}.size(1)", tensor.size(1), "its heads", count)
        width = tensor.size(-1)
        widths[name] = width * count if tensor.dim() == 3 else width
        rules.require(
            widths[name] % count == 0,
            lambda name=name, count=count: f"{name}.size(-1) must be a multiple of its heads, {count}",  # type: ignore[misc]
        )
    return widths


def check_self_attention(
    rules: Rules, query: Tensor, key: Tensor, value: Tensor, seq_len: Tensor, heads: tuple[int, int], out: Tensor
) -> None:
    num_heads, num_kv_heads = heads
    check_heads(rules, num_heads, num_kv_heads)
    rules.dtype("query", query, HALVES)
    named = {"query": (query, num_heads), "key": (key, num_kv_heads), "value": (value, num_kv_heads)}
    widths = check_packed(rules, query, {**named, "out": (out, num_heads)})
    rules.equal("key.size(-1)", widths["key"] * num_heads, "the channels of query", widths["query"] * num_kv_heads)
    rules.equal("out.size(-1)", widths["out"] * num_kv_heads, "the channels of value", widths["value"] * num_heads)
    check_lengths(rules, "seq_len", seq_len)


@operator("atb::_npu_flash_attention", reference=reference.flash_attention, on_any_device=("seq_len",))
def flash_attention(
    rules: Rules,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor,
    seq_len: Tensor,
    scale_value: float,  # noqa: ARG001
    num_heads: int,
    num_kv_heads: int,
    out: Tensor,
) -> Plan:
    """Checks a call against the rules of the library, and returns its plan."""
    check_self_attention(rules, query, key, value, seq_len, (num_heads, num_kv_heads), out)
    rules.dtype("mask", mask, (query.dtype,), ", the dtype of query")
    rules.rank("mask", mask, 2, 3)
    rules.equal("mask.size(-2)", mask.size(-2), "mask.size(-1)", mask.size(-1))
    if mask.dim() == 3:
        rules.one_or("mask.size(0)", mask.size(0), "seq_len.size(0)", seq_len.size(0))
    return Plan(())


def _plan_unpad(rules: Rules, *values: Any) -> Plan:
    """The plan of a call without a mask; the second version chooses between kernels, of which A2 and A3 have one."""
    query, key, value, seq_len, _, *heads, out = values
    if len(heads) == 3 and (kernel_type := heads.pop()):
        rules.refuse(f"kernel_type must be 0, others are of Atlas 300I, got {kernel_type}")
    check_self_attention(rules, query, key, value, seq_len, (heads[0], heads[1]), out)
    return Plan(())


_UNPAD = ("rules", "query", "key", "value", "seq_len", "scale_value", "num_heads", "num_kv_heads")
operator("atb::_npu_flash_attention_unpad", reference=reference.flash_attention_unpad, on_any_device=("seq_len",))(
    with_signature((*_UNPAD, "out"), _plan_unpad)
)
operator("atb::_npu_flash_attention_unpad_v2", reference=reference.flash_attention_unpad, on_any_device=("seq_len",))(
    with_signature((*_UNPAD, "kernel_type", "out"), _plan_unpad)
)
