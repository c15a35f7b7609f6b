"""npu_fusion_attention and npu_fusion_attention_grad: what may be passed, and what comes back.

Without dropout: its mask comes from a generator of the device.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from graph_quant.meta.attention.signatures import taking
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import FLOATS, Rules
from graph_quant.reference.attention.fusion_attention import BAND_FIRST, BAND_LAST, COPIES, PREFIX_TABLE
from graph_quant.reference.attention.fusion_attention_node import compute, compute_gradients
from graph_quant.reference.attention.masks import PREFIX_ROWS, TABLE
from torch import Tensor

LAYOUTS = ("BSH", "SBH", "BSND", "BNSD", "TND")
WHOLE, PREFIX, PACKED = (0, 1), 5, (BAND_LAST, BAND_FIRST)
TABLES = (2, 3, 4, PREFIX_TABLE, *PACKED)
MOST_PREFIXES = 32
MASKS = (torch.bool, torch.uint8)
FORWARD = (
    "query", "key", "value", "head_num", "input_layout", "pse", "padding_mask", "atten_mask", "scale", "keep_prob",
    "pre_tockens", "next_tockens", "inner_precise", "prefix", "actual_seq_qlen", "actual_seq_kvlen", "sparse_mode",
    "gen_mask_parallel", "sync", "softmax_layout", "sink", "dropout_mask", "seed", "offset",
)  # fmt: skip
BACKWARD = (
    "query", "key", "value", "dy", "head_num", "input_layout", "pse", "padding_mask", "atten_mask", "softmax_max",
    "softmax_sum", "softmax_in", "attention_in", "scale_value", "keep_prob", "pre_tockens", "next_tockens",
    "inner_precise", "seed", "offset", "numels", "prefix", "actual_seq_qlen", "actual_seq_kvlen", "sparse_mode",
    "gen_mask_parallel", "sync", "softmax_layout", "sink",
)  # fmt: skip
Given = Mapping[str, Any]


def _sizes(given: Given) -> tuple[Any, Any, Any]:
    """Batch, tokens and channels of query."""
    query, layout, heads = given["query"], given["input_layout"], given["head_num"]
    if layout == "TND":
        return 1, query.size(0), query.size(2)
    batch, tokens = query.size(layout.index("B")), query.size(layout.index("S"))
    return batch, tokens, query.size(2) // heads if layout.endswith("H") else query.size(3)


def _check(rules: Rules, given: Given) -> None:
    query, key, value, layout = given["query"], given["key"], given["value"], given["input_layout"]
    rules.require(layout in LAYOUTS, lambda: f"input_layout must be {', '.join(LAYOUTS)}, got {layout!r}")
    rules.require(given["head_num"] >= 1, lambda: f"head_num must be at least 1, got {given['head_num']}")
    rules.require(
        given["keep_prob"] == 1.0,
        lambda: f"keep_prob must be 1, for dropout needs the device's generator, got {given['keep_prob']}",
    )
    for name in ("padding_mask", "dropout_mask"):
        if given.get(name) is not None:
            rules.refuse(f"{name} must be None here, got {type(given[name]).__name__}")
    rules.require(
        given["softmax_layout"] == "", lambda: f"softmax_layout must be '' here, got {given['softmax_layout']!r}"
    )
    rules.dtype("query", query, FLOATS)
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        rules.dtype(name, tensor, (query.dtype,) if tensor is not query else FLOATS)
        rules.rank(name, tensor, len(layout), why=f" in layout {layout}")
    _check_heads(rules, given)
    _check_mask(rules, given)
    _check_prefix(rules, given)
    _check_lengths(rules, given)


def _check_prefix(rules: Rules, given: Given) -> None:
    """A prefix goes with its modes; a sink has a score for each head."""
    prefix, sink, mode = given["prefix"], given["sink"], given["sparse_mode"]
    if mode not in (PREFIX, PREFIX_TABLE):
        rules.require(prefix is None, lambda: f"prefix must be None without sparse_mode 5 or 6, got {prefix}")
    elif mode == PREFIX and given["input_layout"] == "TND":
        rules.refuse("sparse_mode 5, a mask of prefixes, is for other layouts, got TND")
    elif prefix is None:
        if given["atten_mask"] is not None:
            rules.refuse(f"prefix must be given in sparse_mode {mode}, got None")
    else:
        batch = len(given["actual_seq_qlen"] or ()) if given["input_layout"] == "TND" else _sizes(given)[0]
        rules.equal("the length of prefix", len(prefix), "the batch", batch)
        rules.require(
            len(prefix) <= MOST_PREFIXES, lambda: f"prefix must have at most {MOST_PREFIXES}, got {len(prefix)}"
        )
    if sink is not None:
        rules.dtype("sink", sink, (torch.float32,))
        rules.rank("sink", sink, 1)
        rules.equal("sink.size(0)", sink.size(0), "head_num", given["head_num"])


def _check_heads(rules: Rules, given: Given) -> None:
    query, key, value, layout = given["query"], given["key"], given["value"], given["input_layout"]
    heads, channels = given["head_num"], len(layout) - 1
    for dim in range(channels):
        rules.equal(f"value.size({dim})", value.size(dim), f"key.size({dim})", key.size(dim))
    if layout != "TND":
        batch = layout.index("B")
        rules.equal(f"key.size({batch})", key.size(batch), f"query.size({batch})", query.size(batch))
    width = _sizes(given)[2]
    rules.at_least("the channels of a head of query", width, 1)
    if layout.endswith("H"):
        _multiple(rules, "query.size(2)", query.size(2), heads)
        _multiple(rules, "key.size(2)", key.size(2), width)
        kv_heads = key.size(2) // width
    else:
        place = layout.index("N")
        rules.equal(f"query.size({place})", query.size(place), "head_num", heads)
        rules.equal(f"key.size({channels})", key.size(channels), f"query.size({channels})", width)
        kv_heads = key.size(place)
    rules.at_least("the heads of key", kv_heads, 1)
    rules.require(
        heads % kv_heads == 0, lambda: f"head_num must be a multiple of the heads of key, got {heads} and {kv_heads}"
    )
    if layout.endswith("H"):
        _multiple(rules, "value.size(2)", value.size(2), kv_heads)
    if layout != "TND":
        rules.require(
            value.size(channels) <= key.size(channels),
            lambda: (
                f"value.size({channels}) must be at most {key.size(channels)}, as key is, got {value.size(channels)}"
            ),
        )


def _multiple(rules: Rules, name: str, size: Any, of: Any) -> None:
    rules.require(size % of == 0, lambda: f"{name} must be a multiple of {of}, got {size}")


def _check_mask(rules: Rules, given: Given) -> None:
    mask, mode, pse, layout = given["atten_mask"], given["sparse_mode"], given["pse"], given["input_layout"]
    rules.require(0 <= mode <= max(PACKED), lambda: f"sparse_mode must be from 0 to 8, got {mode}")
    rules.require(
        mode not in PACKED or layout == "TND",
        lambda: f"sparse_mode {mode} is for layout TND, got input_layout {layout}",
    )
    batch, tokens, _ = _sizes(given)
    if mask is not None:
        rules.dtype("atten_mask", mask, MASKS)
        if mode in TABLES:
            shape, rows = list(mask.shape), TABLE + (PREFIX_ROWS if mode == PREFIX_TABLE else 0)
            rules.require(
                shape == [rows, TABLE],
                lambda: f"atten_mask must be ({rows}, {TABLE}) in sparse_mode {mode}, got {shape}",
            )
        elif layout == "TND":
            rules.rank("atten_mask", mask, 2, why=" in layout TND")
        else:
            rules.require(mask.dim() in (2, 4), lambda: f"atten_mask must have 2 or 4 dimensions, got {mask.dim()}")
            rules.equal("atten_mask.size(-2)", mask.size(-2), "the tokens of query", tokens)
            key_tokens = given["key"].size(layout.index("S"))
            rules.equal("atten_mask.size(-1)", mask.size(-1), "the tokens of key", key_tokens)
            if mask.dim() == 4:
                rules.one_or("atten_mask.size(0)", mask.size(0), "the batch", batch)
                rules.one_or("atten_mask.size(1)", mask.size(1), "head_num", given["head_num"])
    if pse is not None:
        rules.dtype("pse", pse, (given["query"].dtype,), why=", the dtype of query")
        rules.require(layout != "TND", lambda: "pse must be None in layout TND here, got a tensor")
        rules.rank("pse", pse, 4)
        rules.one_or("pse.size(0)", pse.size(0), "the batch", batch)
        rules.equal("pse.size(1)", pse.size(1), "head_num", given["head_num"])
        rules.one_or("pse.size(2)", pse.size(2), "the tokens of query", tokens)
        key_tokens = given["key"].size(layout.index("S"))
        rules.equal("pse.size(3)", pse.size(3), "the tokens of key", key_tokens)


def _check_lengths(rules: Rules, given: Given) -> None:
    queries, keys = given["actual_seq_qlen"], given["actual_seq_kvlen"]
    if given["input_layout"] != "TND":
        return
    for name, lengths in (("actual_seq_qlen", queries), ("actual_seq_kvlen", keys)):
        if not lengths:
            rules.refuse(f"{name} must be given in layout TND, got {lengths}")
    rules.require(
        len(keys) == len(queries),
        lambda: f"actual_seq_kvlen must have as many elements as actual_seq_qlen, got {len(keys)} and {len(queries)}",
    )


def _result_shape(given: Given) -> tuple[Any, ...]:
    query, key, value, layout = given["query"], given["key"], given["value"], given["input_layout"]
    if not layout.endswith("H"):
        return (*query.shape[:-1], value.size(-1))
    kv_heads = key.size(2) // _sizes(given)[2]
    return (*query.shape[:-1], given["head_num"] * (value.size(2) // kv_heads))


def _rows_shape(given: Given) -> tuple[Any, ...]:
    """The shape of the largest score and of the sum of each row."""
    batch, tokens, _ = _sizes(given)
    heads = given["head_num"]
    return (tokens, heads, COPIES) if given["input_layout"] == "TND" else (batch, heads, tokens, COPIES)


def rules_forward(rules: Rules, *values: Any) -> Plan:
    """The plan of a call that the documents allow; any other call is refused."""
    given = dict(zip(FORWARD, values, strict=True))
    _check(rules, given)
    query, rows = given["query"], Result(_rows_shape(given), torch.float32)
    return Plan((Result(_result_shape(given), query.dtype), rows, rows, Result((0,), query.dtype), 0, 0, 0))


def rules_backward(rules: Rules, *values: Any) -> Plan:
    """The plan of a call that the documents allow; any other call is refused."""
    given = dict(zip(BACKWARD, values, strict=True))
    _check(rules, given)
    query = given["query"]
    for name in ("softmax_max", "softmax_sum", "attention_in"):
        if given[name] is None:
            rules.refuse(f"{name} must be given, got None")
    for name in ("dy", "attention_in"):
        rules.dtype(name, given[name], (query.dtype,), why=", the dtype of query")
        _check_shape(rules, name, given[name], "attention", _result_shape(given))
    for name in ("softmax_max", "softmax_sum"):
        rules.dtype(name, given[name], (torch.float32,))
        _check_shape(rules, name, given[name], "the forward result", _rows_shape(given))
    shapes = [tuple(given[name].shape) for name in ("query", "key", "value")]
    shapes.append((0,) if given["pse"] is None else tuple(given["pse"].shape))
    sink = (0,) if given["sink"] is None else tuple(given["sink"].shape)
    return Plan((*(Result(shape, query.dtype) for shape in shapes), Result(sink, torch.float32)))


def _check_shape(rules: Rules, name: str, tensor: Tensor, like: str, shape: tuple[Any, ...]) -> None:
    rules.rank(name, tensor, len(shape), why=f", as many as {like}")
    for dim, size in enumerate(shape):
        rules.equal(f"{name}.size({dim})", tensor.size(dim), f"that of {like}", size)


fusion_attention = operator("npu_fusion_attention", reference=taking(FORWARD, compute))(
    taking(("rules", *FORWARD), rules_forward)
)
fusion_attention_grad = operator("npu_fusion_attention_grad", reference=taking(BACKWARD, compute_gradients))(
    taking(("rules", *BACKWARD), rules_backward)
)
