"""Rules of key and value: in the layout of query or in blocks, with a shared prefix, with padding."""

from __future__ import annotations

from typing import Any

import torch
from graph_quant.meta.attention.kernel_limits import is_of_newer_kernel
from graph_quant.meta.rules import Rules
from graph_quant.reference.attention.inference_call import Attributes, Operands
from graph_quant.reference.attention.results import query_sizes
from torch import Tensor

QUANTISED = (torch.int8, torch.int32)
MOST_BLOCK = 1024
NZ_BYTES, NZ_DIMENSIONS = 32, 5


def check(rules: Rules, operands: Operands, attrs: Attributes) -> None:
    """Refuses key and value that do not fit query or each other."""
    query, key, value = operands.query, operands.key, operands.value
    dtypes = (torch.int8,) if query.dtype == torch.int8 else (query.dtype, *QUANTISED)
    rules.dtype("key", key, dtypes, why=f" beside a query of {query.dtype}")
    rules.dtype("value", value, (key.dtype,), why=", the dtype of key")
    rules.rank("value", value, key.dim(), why=", as many as key")
    if operands.block_table is not None:
        _check_paged(rules, operands, attrs, operands.block_table)
    else:
        _check_unpaged(rules, operands, attrs)
    _check_prefix(rules, operands, attrs)
    _check_padding(rules, operands, attrs)


def _check_unpaged(rules: Rules, operands: Operands, attrs: Attributes) -> None:
    query, key, value = operands.query, operands.key, operands.value
    rules.rank("key", key, query.dim(), why=", as many as query without a block_table")
    channels = len(attrs.layout) - 1
    for dim in range(channels):
        rules.equal(f"value.size({dim})", value.size(dim), f"key.size({dim})", key.size(dim))
    if attrs.layout[0] == "B":
        rules.equal("key.size(0)", key.size(0), "query.size(0)", query.size(0))
    packing = 8 if key.dtype == torch.int32 else 1
    _, _, _, width = query_sizes(query, attrs)
    if not attrs.is_packed:
        rules.equal(f"value.size({channels})", value.size(channels), f"key.size({channels})", key.size(channels))
    if attrs.layout == "BSH":
        rules.equal("key.size(2)", key.size(2) * packing, "num_key_value_heads * D", attrs.kv_heads * width)
        return
    heads = attrs.layout.index("N")
    rules.equal(f"key.size({heads})", key.size(heads), "num_key_value_heads", attrs.kv_heads)
    rules.equal(f"key.size({channels})", key.size(channels) * packing, f"query.size({channels})", width)


def _check_paged(rules: Rules, operands: Operands, attrs: Attributes, block_table: Tensor) -> None:
    key, value, size = operands.key, operands.value, attrs.block_size
    rules.dtype("block_table", block_table, (torch.int32,))
    rules.rank("block_table", block_table, 2)
    rules.rank("key", key, 3, 5, why=" with a block_table")
    rules.require(
        0 < size <= MOST_BLOCK and size % 16 == 0,
        lambda: f"block_size must be a multiple of 16 up to {MOST_BLOCK} with a block_table, got {size}",
    )
    rules.require(key.dtype != torch.int32, lambda: f"key must not be packed int4 with a block_table, got {key.dtype}")
    name = attrs.name("actual_seq_lengths_kv")
    if attrs.actual_seq_lengths_kv is None:
        rules.refuse(f"{name} must be given with a block_table, got None")
    _check_blocks(rules, operands, attrs)
    channels = 2 if key.dim() == NZ_DIMENSIONS else key.dim() - 1
    for dim in range(key.dim()):
        if dim != channels or not attrs.is_packed:
            rules.equal(f"value.size({dim})", value.size(dim), f"key.size({dim})", key.size(dim))
    if not attrs.is_packed:
        rules.equal("block_table.size(0)", block_table.size(0), "the batch of query", query_batch(operands, attrs))
    elif attrs.actual_seq_lengths is not None:
        rules.equal(
            "block_table.size(0)",
            block_table.size(0),
            f"the length of {attrs.name('actual_seq_lengths')}",
            len(attrs.actual_seq_lengths),
        )


def query_batch(operands: Operands, attrs: Attributes) -> Any:
    """The batch size of query."""
    return query_sizes(operands.query, attrs)[0]


def _check_blocks(rules: Rules, operands: Operands, attrs: Attributes) -> None:
    """The three forms of a cache in blocks."""
    key, heads = operands.key, attrs.kv_heads
    _, _, _, width = query_sizes(operands.query, attrs)
    if key.dim() == 3:
        rules.equal("key.size(1)", key.size(1), "block_size", attrs.block_size)
        rules.equal("key.size(2)", key.size(2), "num_key_value_heads * D", heads * width)
        rules.require(
            operands.value.size(2) % heads == 0,
            lambda: (
                f"value.size(2) must be a multiple of num_key_value_heads, got {operands.value.size(2)} and {heads}"
            ),
        )
        return
    rules.equal("key.size(1)", key.size(1), "num_key_value_heads", heads)
    if key.dim() == 4:
        if attrs.layout not in ("BNSD", "TND", "NTD"):
            rule = f"key must have 3 or 5 dimensions in layout {attrs.input_layout}, got 4: {list(key.shape)}"
            if not is_of_newer_kernel(operands, attrs):
                rules.refuse(rule)
            rules.since("9.0", lambda: rule)
        rules.equal("key.size(2)", key.size(2), "block_size", attrs.block_size)
        rules.equal("key.size(3)", key.size(3), "D", width)
        return
    rules.equal("key.size(3)", key.size(3), "block_size", attrs.block_size)
    rules.equal("key.size(4)", key.size(4), "the elements of 32 bytes", NZ_BYTES // key.element_size())
    rules.equal("key.size(2) * key.size(4)", key.size(2) * key.size(4), "D", width)


def _check_prefix(rules: Rules, operands: Operands, attrs: Attributes) -> None:
    key_prefix, value_prefix = operands.key_shared_prefix, operands.value_shared_prefix
    if key_prefix is None or value_prefix is None:
        if key_prefix is not value_prefix:
            present, missing = ("value", "key") if key_prefix is None else ("key", "value")
            rules.refuse(f"{missing}_shared_prefix must come with {present}_shared_prefix, got None")
        if attrs.actual_shared_prefix_len is not None:
            rules.refuse("actual_shared_prefix_len must be None without key_shared_prefix, got a list")
        return
    if operands.block_table is not None:
        rules.refuse("key_shared_prefix must be None with a block_table, got a tensor")
    if operands.query.dtype == torch.int8 or attrs.is_packed:
        rules.refuse("key_shared_prefix must be None with an int8 query or in layouts with T, got a tensor")
    tokens = 2 if attrs.layout == "BNSD" else 1
    pairs = (("key", key_prefix, operands.key), ("value", value_prefix, operands.value))
    for name, prefix, whole in pairs:
        argument = f"{name}_shared_prefix"
        rules.dtype(argument, prefix, (whole.dtype,), why=f", the dtype of {name}")
        rules.rank(argument, prefix, whole.dim(), why=f", as many as {name}")
        rules.equal(f"{argument}.size(0)", prefix.size(0), "one batch", 1)
        for dim in range(1, whole.dim()):
            if dim != tokens:
                rules.equal(f"{argument}.size({dim})", prefix.size(dim), f"{name}.size({dim})", whole.size(dim))
    rules.equal(
        f"value_shared_prefix.size({tokens})",
        value_prefix.size(tokens),
        f"key_shared_prefix.size({tokens})",
        key_prefix.size(tokens),
    )
    lengths = attrs.actual_shared_prefix_len
    rules.require(
        lengths is None or len(lengths) == 1, lambda: f"actual_shared_prefix_len must have 1 element, got {lengths}"
    )


def _check_padding(rules: Rules, operands: Operands, attrs: Attributes) -> None:
    sides = (
        ("query_padding_size", operands.query_padding_size, "actual_seq_lengths", attrs.actual_seq_lengths),
        ("kv_padding_size", operands.kv_padding_size, "actual_seq_lengths_kv", attrs.actual_seq_lengths_kv),
    )
    for name, padding, lengths_name, lengths in sides:
        if padding is None:
            continue
        rules.dtype(name, padding, (torch.int64,))
        rules.require(
            padding.numel() == 1,
            lambda: f"{name} must have one element, got {list(padding.shape)}",  # noqa: B023
        )
        if lengths is None:
            rules.refuse(f"{attrs.name(lengths_name)} must be given with {name}, got None")
        if operands.block_table is not None or operands.key_shared_prefix is not None:
            rules.refuse(f"{name} must be None with a block_table or a shared prefix, got a tensor")
        if attrs.is_packed:
            rules.refuse(f"{name} must be None in layout {attrs.input_layout}, got a tensor")
