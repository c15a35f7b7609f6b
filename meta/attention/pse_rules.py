"""Rules of pse: values per score or key, the last rows of a shift by distance, or slopes."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import torch
from graph_quant.meta.rules import Rules
from graph_quant.reference.attention.pse_shift import ROWS, SHIFT_FIRST, SLOPES
from graph_quant.releases.alternatives import guard_or_false
from torch import Tensor

Arguments = Mapping[str, Any]
CAUSAL = (0, 2, 3)
PACKED_BANDS = (7, 8)


def sequence_lengths(arguments: Arguments) -> list[list[int]]:
    """The numbers of queries and of keys of each packed sequence; sequences left out at the end have none."""
    ends = (arguments["actual_seq_qlen"], arguments["actual_seq_kvlen"])
    return [[max(end - start, 0) for start, end in pairwise([0, *values])] for values in ends]


def check_shift(rules: Rules, arguments: Arguments, batch: Any, tokens: Any) -> None:
    """Refuses a shift that fits no form."""
    pse, kind, mode = arguments["pse"], arguments.get("pse_type", SHIFT_FIRST), arguments["sparse_mode"]
    rules.require(0 <= kind <= max(SLOPES), lambda: f"pse_type must be from 0 to 3, got {kind}")
    if pse is None:
        rules.require(kind == SHIFT_FIRST, lambda: f"pse_type must be 1 without pse, got {kind}")
        return
    rules.require(mode not in PACKED_BANDS, lambda: f"pse must be None in sparse_mode {mode}, got a tensor")
    if kind in SLOPES:
        _check_slopes(rules, arguments, pse, batch, tokens)
        return
    rules.dtype("pse", pse, (arguments["query"].dtype,), why=", the dtype of query")
    if arguments["input_layout"] == "TND":
        _check_packed(rules, arguments, pse)
    else:
        _check_whole(rules, arguments, pse, batch, tokens)


def _check_slopes(rules: Rules, arguments: Arguments, pse: Tensor, batch: Any, tokens: Any) -> None:
    rules.dtype("pse", pse, (torch.float32,), why=", slopes of heads")
    rules.rank("pse", pse, 1, 2, why=", slopes of heads")
    rules.equal("pse.size(-1)", pse.size(-1), "head_num", arguments["head_num"])
    packed = arguments["input_layout"] == "TND"
    if pse.dim() == 2:
        sequences = len(arguments["actual_seq_qlen"]) if packed else batch
        rules.equal("pse.size(0)", pse.size(0), "the batch", sequences)
    if packed:
        _check_alike(rules, arguments, "slopes")
    else:
        key_tokens = arguments["key"].size(arguments["input_layout"].index("S"))
        rules.equal("the tokens of key", key_tokens, "those of query, for slopes,", tokens)


def _check_alike(rules: Rules, arguments: Arguments, what: str) -> None:
    """A shift by distance needs as many keys as queries in each sequence."""
    queries, keys = arguments["actual_seq_qlen"], arguments["actual_seq_kvlen"]
    if not isinstance(queries, Tensor):
        rules.require(
            list(queries) == list(keys),
            lambda: f"actual_seq_kvlen must equal actual_seq_qlen for {what}, got {list(keys)} and {list(queries)}",
        )


def _check_packed(rules: Rules, arguments: Arguments, pse: Tensor) -> None:
    queries = arguments["actual_seq_qlen"]
    if isinstance(queries, Tensor):
        rules.refuse("pse must be None in layout TND with lengths in tensors, got a tensor")
    lengths = sequence_lengths(arguments)
    rules.require(all(lengths[0]), lambda: f"actual_seq_qlen must have no sequence of 0 beside pse, got {queries}")
    heads = arguments["head_num"]
    of_keys = heads * sum(lengths[1])
    of_scores = heads * sum(one * other for one, other in zip(*lengths, strict=True))
    if pse.dim() == 4 and pse.size(2) == ROWS:
        rules.one_or("pse.size(0)", pse.size(0), "the number of sequences", len(queries))
        rules.equal("pse.size(1)", pse.size(1), "head_num", heads)
        rules.equal("pse.size(3)", pse.size(3), "the longest sequence of key", max(lengths[1]))
        _check_alike(rules, arguments, f"the last {ROWS} rows of a shift")
        _check_causal(rules, arguments)
    else:
        rules.rank("pse", pse, 1, why=" in layout TND")
        rules.require(
            pse.size(0) in (of_keys, of_scores),
            lambda: f"pse.size(0) must be {of_scores}, one for each score, or {of_keys}, got {pse.size(0)}",
        )


def _check_whole(rules: Rules, arguments: Arguments, pse: Tensor, batch: Any, tokens: Any) -> None:
    rules.rank("pse", pse, 4)
    rules.one_or("pse.size(0)", pse.size(0), "the batch", batch)
    rules.equal("pse.size(1)", pse.size(1), "head_num", arguments["head_num"])
    key_tokens = arguments["key"].size(arguments["input_layout"].index("S"))
    rules.equal("pse.size(3)", pse.size(3), "the tokens of key", key_tokens)
    if guard_or_false(pse.size(2) == ROWS) and guard_or_false(tokens > ROWS):
        rules.equal("the tokens of key", key_tokens, f"those of query, for the last {ROWS} rows of a shift,", tokens)
        _check_causal(rules, arguments)
    else:
        rules.one_or("pse.size(2)", pse.size(2), "the tokens of query", tokens)


def _check_causal(rules: Rules, arguments: Arguments) -> None:
    mode = arguments["sparse_mode"]
    rules.require(
        mode in CAUSAL and arguments["atten_mask"] is not None,
        lambda: f"pse of {ROWS} rows must go with a causal mask in sparse_mode 0, 2 or 3, got sparse_mode {mode}",
    )
