"""Rules of npu_fusion_attention in all versions, except those of pse."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from graph_quant.meta.attention.pse_rules import check_shift, sequence_lengths
from graph_quant.meta.rules import FLOATS, Rules
from graph_quant.reference.attention.masks import PREFIX_ROWS, TABLE
from graph_quant.reference.attention.training_call import BAND_FIRST, BAND_LAST, COPIES, PREFIX_TABLE
from graph_quant.releases.alternatives import guard_or_false
from torch import Tensor

LAYOUTS = ("BSH", "SBH", "BSND", "BNSD", "TND")
WHOLE, BAND = 0, 4
REACHES = ("pre_tockens", "next_tockens"), ("pre_tokens", "next_tokens")
PREFIX, PACKED = 5, (BAND_LAST, BAND_FIRST)
TABLES = (2, 3, 4, PREFIX_TABLE, *PACKED)
MOST_PREFIXES, WIDEST_HEAD = 32, 768
MASKS = (torch.bool, torch.uint8)
Arguments = Mapping[str, Any]


def sizes(arguments: Arguments) -> tuple[Any, Any, Any]:
    """Batch, tokens and channels of query."""
    query, layout, heads = arguments["query"], arguments["input_layout"], arguments["head_num"]
    if layout == "TND":
        return 1, query.size(0), query.size(2)
    batch, tokens = query.size(layout.index("B")), query.size(layout.index("S"))
    return batch, tokens, query.size(2) // heads if layout.endswith("H") else query.size(3)


def check(rules: Rules, arguments: Arguments) -> None:
    """Refuses what the documents or the device's own checks refuse."""
    query, key, value, layout = arguments["query"], arguments["key"], arguments["value"], arguments["input_layout"]
    rules.require(layout in LAYOUTS, lambda: f"input_layout must be {', '.join(LAYOUTS)}, got {layout!r}")
    rules.require(arguments["head_num"] >= 1, lambda: f"head_num must be at least 1, got {arguments['head_num']}")
    if arguments["padding_mask"] is not None:
        rules.refuse(f"padding_mask must be None, got {type(arguments['padding_mask']).__name__}")
    softmax = arguments["softmax_layout"]
    rules.require(
        softmax in ("", "TND") and (not softmax or layout == "TND"),
        lambda: f"softmax_layout must be '', or 'TND' in layout TND, got {softmax!r} in layout {layout}",
    )
    rules.dtype("query", query, FLOATS)
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        rules.dtype(name, tensor, (query.dtype,) if tensor is not query else FLOATS)
        rules.rank(name, tensor, len(layout), why=f" in layout {layout}")
    _check_heads(rules, arguments)
    _check_lengths(rules, arguments)
    _check_mask(rules, arguments)
    _check_band(rules, arguments)
    _check_prefix(rules, arguments)
    check_shift(rules, arguments, *sizes(arguments)[:2])
    _check_dropout(rules, arguments)


def _check_heads(rules: Rules, arguments: Arguments) -> None:
    query, key, value, layout = arguments["query"], arguments["key"], arguments["value"], arguments["input_layout"]
    heads, channels = arguments["head_num"], len(layout) - 1
    for dim in range(channels):
        rules.equal(f"value.size({dim})", value.size(dim), f"key.size({dim})", key.size(dim))
    if layout != "TND":
        batch = layout.index("B")
        rules.equal(f"key.size({batch})", key.size(batch), f"query.size({batch})", query.size(batch))
    width = sizes(arguments)[2]
    rules.at_least("the channels of a head of query", width, 1)
    rules.require(
        width <= WIDEST_HEAD, lambda: f"the channels of a head of query must be at most {WIDEST_HEAD}, got {width}"
    )
    if layout.endswith("H"):
        _multiple(rules, "query.size(2)", query.size(2), heads)
        _multiple(rules, "key.size(2)", key.size(2), width)
        kv_heads = key.size(2) // width
    else:
        head_dim = layout.index("N")
        rules.equal(f"query.size({head_dim})", query.size(head_dim), "head_num", heads)
        rules.equal(f"key.size({channels})", key.size(channels), f"query.size({channels})", width)
        kv_heads = key.size(head_dim)
    rules.at_least("the heads of key", kv_heads, 1)
    rules.require(
        heads % kv_heads == 0, lambda: f"head_num must be a multiple of the heads of key, got {heads} and {kv_heads}"
    )
    if layout.endswith("H"):
        _multiple(rules, "value.size(2)", value.size(2), kv_heads)
    rules.require(
        value.size(channels) <= key.size(channels),
        lambda: f"value.size({channels}) must be at most {key.size(channels)}, as key is, got {value.size(channels)}",
    )


def _multiple(rules: Rules, name: str, size: Any, of: Any) -> None:
    rules.require(size % of == 0, lambda: f"{name} must be a multiple of {of}, got {size}")


def _check_lengths(rules: Rules, arguments: Arguments) -> None:
    if arguments["input_layout"] != "TND":
        return
    lengths = {name: arguments[name] for name in ("actual_seq_qlen", "actual_seq_kvlen")}
    for name, ends in lengths.items():
        if ends is None or len(ends) == 0:
            rules.refuse(f"{name} must be given in layout TND, got {ends}")
        if isinstance(ends, Tensor):
            rules.rank(name, ends, 1)
            rules.dtype(name, ends, (torch.int64,))
    queries, keys = (len(ends) for ends in lengths.values())
    rules.require(
        keys == queries,
        lambda: f"actual_seq_kvlen must have as many elements as actual_seq_qlen, got {keys} and {queries}",
    )


def _check_mask(rules: Rules, arguments: Arguments) -> None:
    mask, mode, layout = arguments["atten_mask"], arguments["sparse_mode"], arguments["input_layout"]
    rules.require(0 <= mode <= max(PACKED), lambda: f"sparse_mode must be from 0 to 8, got {mode}")
    rules.require(
        mode not in PACKED or layout == "TND",
        lambda: f"sparse_mode {mode} is for layout TND, got input_layout {layout}",
    )
    if mask is None:
        return
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
        _check_whole_mask(rules, arguments, mask)


def _check_band(rules: Rules, arguments: Arguments) -> None:
    """A band is not empty and reaches some key, counted from the upper left corner, in mode 4 from the lower right."""
    mode, layout = arguments["sparse_mode"], arguments["input_layout"]
    if arguments["atten_mask"] is None or mode not in (WHOLE, BAND):
        return
    first, second = next(names for names in REACHES if names[0] in arguments)
    before, after = arguments[first], arguments[second]
    rules.require(before + after >= 0, lambda: f"{first} + {second} must not be negative, got {before} and {after}")
    if layout == "TND":
        name, reach = (first, before) if mode == BAND else (second, after)
        rules.require(reach >= 0, lambda: f"{name} must be at least 0 in sparse_mode {mode} and TND, got {reach}")
        return
    queries, keys = sizes(arguments)[1], arguments["key"].size(layout.index("S"))
    shift = keys - queries if mode == BAND else 0
    if mode == BAND or before < 0:
        rules.require(before - shift > -keys, lambda: f"{first} must reach one of {keys} keys, got {before}")
    if mode == BAND or after < 0:
        rules.require(after + shift > -queries, lambda: f"{second} must reach one of {queries} queries, got {after}")


def _check_whole_mask(rules: Rules, arguments: Arguments, mask: Tensor) -> None:
    batch, tokens, _ = sizes(arguments)
    rules.require(mask.dim() in (2, 4), lambda: f"atten_mask must have 2 or 4 dimensions, got {mask.dim()}")
    rules.equal("atten_mask.size(-2)", mask.size(-2), "the tokens of query", tokens)
    key_tokens = arguments["key"].size(arguments["input_layout"].index("S"))
    rules.equal("atten_mask.size(-1)", mask.size(-1), "the tokens of key", key_tokens)
    if mask.dim() == 4:
        rules.one_or("atten_mask.size(0)", mask.size(0), "the batch", batch)
        rules.one_or("atten_mask.size(1)", mask.size(1), "head_num", arguments["head_num"])
        if guard_or_false(mask.size(1) != 1):
            rules.equal("atten_mask.size(0)", mask.size(0), "the batch, for a mask of each head,", batch)


def _check_prefix(rules: Rules, arguments: Arguments) -> None:
    """A prefix needs mode 5 or 6; a sink has one score per head."""
    prefix, sink, mode = arguments["prefix"], arguments["sink"], arguments["sparse_mode"]
    if mode not in (PREFIX, PREFIX_TABLE):
        rules.require(prefix is None, lambda: f"prefix must be None without sparse_mode 5 or 6, got {prefix}")
    elif mode == PREFIX and arguments["input_layout"] == "TND":
        rules.refuse("sparse_mode 5, a mask of prefixes, is for other layouts, got TND")
    elif prefix is None:
        if arguments["atten_mask"] is not None:
            rules.refuse(f"prefix must be given in sparse_mode {mode}, got None")
    else:
        batch = len(arguments["actual_seq_qlen"]) if arguments["input_layout"] == "TND" else sizes(arguments)[0]
        rules.equal("the length of prefix", len(prefix), "the batch", batch)
        rules.require(
            len(prefix) <= MOST_PREFIXES, lambda: f"prefix must have at most {MOST_PREFIXES}, got {len(prefix)}"
        )
    if sink is not None:
        rules.dtype("sink", sink, (torch.float32,))
        rules.rank("sink", sink, 1)
        rules.equal("sink.size(0)", sink.size(0), "head_num", arguments["head_num"])


def _check_dropout(rules: Rules, arguments: Arguments) -> None:
    keep, bits = arguments["keep_prob"], arguments.get("dropout_mask")
    rules.require(0 < keep <= 1, lambda: f"keep_prob must lie in (0, 1], got {keep}")
    if bits is None:
        return
    rules.require(keep < 1, lambda: f"dropout_mask must be None where keep_prob is 1, got {type(bits).__name__}")
    rules.dtype("dropout_mask", bits, (torch.uint8,))
    count = weights(arguments)
    rules.require(
        bits.numel() * 8 >= count,
        lambda: f"dropout_mask must have a bit for each of {count} weights, got {bits.numel()} bytes",
    )


def draws(arguments: Arguments) -> bool:
    """Whether the operator samples its dropout mask."""
    return bool(arguments["keep_prob"] < 1) and arguments.get("dropout_mask") is None


def weights(arguments: Arguments) -> Any:
    """The number of weights: one per query, key and head of each sequence."""
    if arguments["input_layout"] != "TND":
        batch, tokens, _ = sizes(arguments)
        return batch * arguments["head_num"] * tokens * arguments["key"].size(arguments["input_layout"].index("S"))
    return arguments["head_num"] * sum(one * other for one, other in zip(*sequence_lengths(arguments), strict=True))


def result_shape(arguments: Arguments) -> tuple[Any, ...]:
    """The shape of the attention."""
    query, key, value, layout = arguments["query"], arguments["key"], arguments["value"], arguments["input_layout"]
    if not layout.endswith("H"):
        return (*query.shape[:-1], value.size(-1))
    kv_heads = key.size(2) // sizes(arguments)[2]
    return (*query.shape[:-1], arguments["head_num"] * (value.size(2) // kv_heads))


def rows_shape(arguments: Arguments) -> tuple[Any, ...]:
    """The shape of the maxima and sums of rows."""
    batch, tokens, _ = sizes(arguments)
    heads = arguments["head_num"]
    return (tokens, heads, COPIES) if arguments["input_layout"] == "TND" else (batch, heads, tokens, COPIES)
