"""Rules and results shared by the attention operators for inference.

Arguments have their names in npu_fused_infer_attention_score; refusals use the names of the operator called.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from graph_quant.chip import ASCEND_950
from graph_quant.meta.attention import caches, kernel_limits, masking, packed_sequences, quantisation
from graph_quant.meta.operator import Plan, Result
from graph_quant.meta.rules import Rules, guard_or_false
from graph_quant.reference.attention.ascend950 import find_undescribed
from graph_quant.reference.attention.inference_call import Attributes, Operands
from graph_quant.reference.attention.layouts import LAYOUTS
from graph_quant.reference.attention.results import lse_shape, query_sizes, result_dtype, result_shape
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

MOST_HEADS, MOST_CHANNELS, MOST_GROUP = 256, 512, 64
CACHES = ("key", "value", "key_shared_prefix", "value_shared_prefix")
QUERY_DTYPES = (torch.float16, torch.bfloat16, torch.int8)
ROPE_CHANNELS = 64
LATENT_CHANNELS, SPLIT_CHANNELS = 512, 128
OF_OLDER_KERNEL = 256  # channels a head that it computes faster, where heads share no keys


@dataclass(frozen=True)
class AttentionPlan(Plan):
    """A call in the terms that inference attention operators share; ``operands`` is None for fake tensors."""

    operands: Operands | None
    attrs: Attributes


def plan_of(
    rules: Rules, operands: Operands, attrs: Attributes, layouts: Sequence[str] = tuple(LAYOUTS)
) -> AttentionPlan:
    """Checks a call against the documented rules, and returns its plan."""
    check_query(rules, operands, attrs, layouts)
    caches.check(rules, operands, attrs)
    _check_rope(rules, operands, attrs)
    if rules.chip is ASCEND_950:
        undescribed = find_undescribed(operands, attrs)
        rules.require(undescribed is None, lambda: str(undescribed))
    quantisation.check(rules, operands, attrs)
    masking.check(rules, operands, attrs)
    _check_lengths(rules, operands, attrs)
    _check_sink(rules, operands, attrs)
    packed_sequences.check(rules, operands, attrs)
    kernel_limits.check(rules, operands, attrs)
    int4 = frozenset(name for name in CACHES if _is_packed(getattr(operands, name)))
    # A trace caches its plans, and tensors of the trace in them would keep it alive.
    kept = None if isinstance(operands.query, FakeTensor) else operands
    return AttentionPlan(results_of(operands, attrs), kept, attrs, int4_arguments=int4)


def results_of(operands: Operands, attrs: Attributes) -> tuple[Result, Result]:
    """Shapes and dtypes of the results."""
    return (
        Result(result_shape(operands, attrs), result_dtype(operands)),
        Result(lse_shape(operands, attrs), torch.float32),
    )


def check_query(rules: Rules, operands: Operands, attrs: Attributes, layouts: Sequence[str] = tuple(LAYOUTS)) -> None:
    """Refuses a query that does not fit its layout."""
    _check_attributes(rules, operands, attrs, layouts)
    _check_query(rules, operands, attrs)


def _is_packed(cache: Tensor | None) -> bool:
    return cache is not None and cache.dtype == torch.int32


def _check_attributes(rules: Rules, operands: Operands, attrs: Attributes, layouts: Sequence[str]) -> None:
    heads, kv_heads = attrs.num_heads, attrs.num_key_value_heads
    name = attrs.name("num_heads")
    rules.require(
        attrs.input_layout in layouts,
        lambda: f"input_layout must be {', '.join(layouts[:-1])} or {layouts[-1]}, got {attrs.input_layout!r}",
    )
    rules.require(1 <= heads <= MOST_HEADS, lambda: f"{name} must lie in [1, {MOST_HEADS}], got {heads}")
    rules.require(kv_heads >= 0, lambda: f"num_key_value_heads must be at least 0, got {kv_heads}")
    rules.require(
        heads % attrs.kv_heads == 0,
        lambda: f"{name} must be a multiple of num_key_value_heads, got {heads} and {attrs.kv_heads}",
    )
    rules.require(
        operands.query_rope is not None or heads // attrs.kv_heads <= MOST_GROUP,
        lambda: f"{name} must be at most {MOST_GROUP} times num_key_value_heads, got {heads} and {attrs.kv_heads}",
    )
    rules.require(
        attrs.inner_precise in (0, 1, 2, 3),
        lambda: f"inner_precise must be 0, 1, 2 or 3, got {attrs.inner_precise}",
    )


def _check_query(rules: Rules, operands: Operands, attrs: Attributes) -> None:
    query, heads = operands.query, attrs.num_heads
    rules.dtype("query", query, QUERY_DTYPES)
    rules.rank("query", query, 4 if len(attrs.layout) == 4 else 3, why=f" in layout {attrs.input_layout}")
    if attrs.layout == "BSH":
        rules.require(
            query.size(2) % heads == 0,
            lambda: f"query.size(2) must be a multiple of {attrs.name('num_heads')}, got {query.size(2)} and {heads}",
        )
    else:
        head_dim = attrs.layout.index("N")
        rules.equal(f"query.size({head_dim})", query.size(head_dim), attrs.name("num_heads"), heads)
    _, _, tokens, channels = query_sizes(query, attrs)
    rules.require(
        channels <= MOST_CHANNELS, lambda: f"query must have at most {MOST_CHANNELS} channels a head, got {channels}"
    )
    multiple = 32 if torch.int8 in (query.dtype, operands.key.dtype) else 16
    rules.require(
        channels % multiple == 0,
        lambda: f"query must have a multiple of {multiple} channels a head, got {channels}",
    )
    if attrs.input_layout == "BNSD_BSND" and guard_or_false(tokens == 1):
        _check_transposed_token(rules, operands, attrs, channels)


def _check_transposed_token(rules: Rules, operands: Operands, attrs: Attributes, channels: Any) -> None:
    """One token whose result is transposed is for the newer kernel, of float queries and keys."""
    if not kernel_limits.is_of_newer_kernel(operands, attrs):
        rules.refuse("query must have more than one token in layout BNSD_BSND, got 1")
    rules.since("9.0", lambda: "query must have more than one token in layout BNSD_BSND, got 1")
    if operands.query_rope is None:
        rules.require(
            channels in kernel_limits.COMMON_WIDTHS,
            lambda: f"query must have 64 or 128 channels a head for one token in layout BNSD_BSND, got {channels}",
        )


def _check_rope(rules: Rules, operands: Operands, attrs: Attributes) -> None:
    query_rope, key_rope = operands.query_rope, operands.key_rope
    if query_rope is None or key_rope is None:
        if query_rope is not key_rope:
            present, missing = ("key", "query") if query_rope is None else ("query", "key")
            rules.refuse(f"{missing}_rope must come with {present}_rope, got None")
        return
    float_dtypes = (torch.bfloat16,) if operands.query.dtype == torch.int8 else (operands.query.dtype,)
    for name, rope, whole in (("query_rope", query_rope, operands.query), ("key_rope", key_rope, operands.key)):
        rules.dtype(name, rope, float_dtypes, why=" beside this query")
        rules.rank(name, rope, whole.dim(), why=", as many as the tensor it goes with")
    _, _, _, channels = query_sizes(operands.query, attrs)
    rules.require(
        channels in (LATENT_CHANNELS, SPLIT_CHANNELS),
        lambda: f"query must have 128 or 512 channels a head beside query_rope, got {channels}",
    )
    _check_rope_shape(rules, "query_rope", query_rope, operands.query, attrs.num_heads, attrs)
    if key_rope.dim() < 5:
        _check_rope_shape(rules, "key_rope", key_rope, operands.key, attrs.kv_heads, attrs)
    else:
        rules.equal("key_rope.size(2) * key_rope.size(4)", key_rope.size(2) * key_rope.size(4), "64", ROPE_CHANNELS)
        for dim in (0, 1, 3):
            rules.equal(f"key_rope.size({dim})", key_rope.size(dim), f"key.size({dim})", operands.key.size(dim))
    for name in ("pse_shift", "query_padding_size", "kv_padding_size", "key_shared_prefix", "quant_scale2"):
        if getattr(operands, name) is not None:
            rules.refuse(f"{attrs.name(name)} must be None beside query_rope, got a tensor")
    if channels == LATENT_CHANNELS:
        rules.require(
            attrs.kv_heads == 1,
            lambda: f"num_key_value_heads must be 1 for 512 channels a head, got {attrs.kv_heads}",
        )
        rules.require(
            attrs.num_heads in (1, 2, 4, 8, 16, 32, 64, 128),
            lambda: (
                f"{attrs.name('num_heads')} must be a power of 2 up to 128 for 512 channels a head, "
                f"got {attrs.num_heads}"
            ),
        )
        rules.require(
            not attrs.softmax_lse_flag or torch.int8 not in (operands.query.dtype, operands.key.dtype),
            lambda: f"{attrs.name('softmax_lse_flag')} must be False for 512 channels a head in int8, got True",
        )
        if attrs.softmax_lse_flag:
            rules.since(
                "8.5", lambda: f"{attrs.name('softmax_lse_flag')} must be False for 512 channels a head, got True"
            )


def _check_rope_shape(rules: Rules, name: str, rope: Any, whole: Any, heads: int, attrs: Attributes) -> None:
    is_flat = attrs.layout == "BSH" or (name == "key_rope" and whole.dim() == 3 and rope.size(2) != ROPE_CHANNELS)
    width = ROPE_CHANNELS * heads if is_flat else ROPE_CHANNELS
    rules.equal(f"{name}.size(-1)", rope.size(-1), "64 channels a head", width)
    for dim in range(whole.dim() - 1):
        rules.equal(f"{name}.size({dim})", rope.size(dim), f"{name[:-5]}.size({dim})", whole.size(dim))


def _check_lengths(rules: Rules, operands: Operands, attrs: Attributes) -> None:
    queries, keys = attrs.actual_seq_lengths, attrs.actual_seq_lengths_kv
    query_name, key_name = attrs.name("actual_seq_lengths"), attrs.name("actual_seq_lengths_kv")
    if attrs.is_packed:
        for name, lengths in ((query_name, queries), (key_name, keys)):
            if not lengths:
                rules.refuse(f"{name} must be given in layout {attrs.input_layout}, got {lengths}")
        assert queries is not None
        assert keys is not None
        rules.require(
            len(keys) == len(queries) or (operands.block_table is not None and not 1 < len(keys) < len(queries)),
            lambda: f"{key_name} must have as many elements as {query_name}, got {len(keys)} and {len(queries)}",
        )
        return
    batch, _, tokens, _ = query_sizes(operands.query, attrs)
    for name, lengths in ((query_name, queries), (key_name, keys)):
        if lengths is None or (lengths is queries and guard_or_false(tokens == 1)):
            continue
        count = len(lengths)
        if count != 1:
            rules.require(
                batch <= count,
                lambda: f"{name} must have 1 element or at least {batch}, got {count}",  # noqa: B023
            )


def _check_sink(rules: Rules, operands: Operands, attrs: Attributes) -> None:
    sink = operands.learnable_sink
    if sink is None:
        return
    rules.dtype("learnable_sink", sink, (torch.bfloat16,))
    rules.rank("learnable_sink", sink, 1)
    rules.equal("learnable_sink.size(0)", sink.size(0), attrs.name("num_heads"), attrs.num_heads)
    if attrs.input_layout not in ("TND", "NTD_TND"):
        _check_sink_of_batches(rules, operands, attrs)


def _check_sink_of_batches(rules: Rules, operands: Operands, attrs: Attributes) -> None:
    """A sink in other layouts is for the newer kernel; the older ones do not read it."""
    layout = attrs.input_layout
    when = f" with learnable_sink in layout {layout}"
    if not kernel_limits.is_of_newer_kernel(operands, attrs):
        rules.refuse(f"key must have the dtype of query, a float one,{when}, got {operands.key.dtype}")
    rules.since("9.0", lambda: f"input_layout must be TND or NTD_TND with learnable_sink, got {layout!r}")
    for name in (
        "query_rope",
        "pse_shift",
        "key_shared_prefix",
        "query_padding_size",
        "kv_padding_size",
        "quant_scale2",
    ):
        if getattr(operands, name) is not None:
            rules.refuse(f"{attrs.name(name)} must be None{when}, got a tensor")
    _, _, tokens, channels = query_sizes(operands.query, attrs)
    is_alone = attrs.num_heads == attrs.kv_heads and operands.block_table is None and layout in ("BSH", "BSND", "BNSD")
    if is_alone and guard_or_false(tokens == 1):
        rules.require(
            channels != OF_OLDER_KERNEL,
            lambda: f"query must not have {OF_OLDER_KERNEL} channels a head for one token{when}, got {channels}",
        )
