"""What pse may be: numbers for scores or keys, the last rows of a shift by distance, or slopes."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import torch
from graph_quant.meta.rules import Rules
from graph_quant.reference.attention.pse_shift import ROWS, SHIFT_FIRST, SLOPES
from torch import Tensor
from torch.fx.experimental.symbolic_shapes import guard_or_false

Given = Mapping[str, Any]
CAUSAL = (0, 2, 3)
PACKED_BANDS = (7, 8)


def sequence_lengths(given: Given) -> list[list[int]]:
    """How many queries, and how many keys, each packed sequence has; those left out at the end have none."""
    ends = (given["actual_seq_qlen"], given["actual_seq_kvlen"])
    return [[max(end - start, 0) for start, end in pairwise([0, *each])] for each in ends]


def check_shift(rules: Rules, given: Given, batch: Any, tokens: Any) -> None:
    """Refuses a shift that no form of it is."""
    pse, kind, mode = given["pse"], given.get("pse_type", SHIFT_FIRST), given["sparse_mode"]
    rules.require(0 <= kind <= max(SLOPES), lambda: f"pse_type must be from 0 to 3, got {kind}")
    if pse is None:
        rules.require(kind == SHIFT_FIRST, lambda: f"pse_type must be 1 without pse, got {kind}")
        return
    rules.require(mode not in PACKED_BANDS, lambda: f"pse must be None in sparse_mode {mode}, got a tensor")
    if kind in SLOPES:
        _check_slopes(rules, given, pse, batch, tokens)
        return
    rules.dtype("pse", pse, (given["query"].dtype,), why=", the dtype of query")
    if given["input_layout"] == "TND":
        _check_packed(rules, given, pse)
    else:
        _check_whole(rules, given, pse, batch, tokens)


def _check_slopes(rules: Rules, given: Given, pse: Tensor, batch: Any, tokens: Any) -> None:
    rules.dtype("pse", pse, (torch.float32,), why=", slopes of heads")
    rules.rank("pse", pse, 1, 2, why=", slopes of heads")
    rules.equal("pse.size(-1)", pse.size(-1), "head_num", given["head_num"])
    packed = given["input_layout"] == "TND"
    if pse.dim() == 2:
        sequences = len(given["actual_seq_qlen"]) if packed else batch
        rules.equal("pse.size(0)", pse.size(0), "the batch", sequences)
    if packed:
        _check_alike(rules, given, "slopes")
    else:
        key_tokens = given["key"].size(given["input_layout"].index("S"))
        rules.equal("the tokens of key", key_tokens, "those of query, for slopes,", tokens)


def _check_alike(rules: Rules, given: Given, what: str) -> None:
    """A shift by distance is of sequences with as many keys as queries."""
    queries, keys = given["actual_seq_qlen"], given["actual_seq_kvlen"]
    if not isinstance(queries, Tensor):
        rules.require(
            list(queries) == list(keys),
            lambda: f"actual_seq_kvlen must equal actual_seq_qlen for {what}, got {list(keys)} and {list(queries)}",
        )


def _check_packed(rules: Rules, given: Given, pse: Tensor) -> None:
    queries = given["actual_seq_qlen"]
    if isinstance(queries, Tensor):
        rules.refuse("pse must be None in layout TND with lengths in tensors, got a tensor")
    lengths = sequence_lengths(given)
    rules.require(all(lengths[0]), lambda: f"actual_seq_qlen must have no sequence of 0 beside pse, got {queries}")
    heads = given["head_num"]
    of_keys = heads * sum(lengths[1])
    of_scores = heads * sum(one * other for one, other in zip(*lengths, strict=True))
    if pse.dim() == 4 and pse.size(2) == ROWS:
        rules.one_or("pse.size(0)", pse.size(0), "the number of sequences", len(queries))
        rules.equal("pse.size(1)", pse.size(1), "head_num", heads)
        rules.equal("pse.size(3)", pse.size(3), "the longest sequence of key", max(lengths[1]))
        _check_alike(rules, given, f"the last {ROWS} rows of a shift")
        _check_causal(rules, given)
    else:
        rules.rank("pse", pse, 1, why=" in layout TND")
        rules.require(
            pse.size(0) in (of_keys, of_scores),
            lambda: f"pse.size(0) must be {of_scores}, one for each score, or {of_keys}, got {pse.size(0)}",
        )


def _check_whole(rules: Rules, given: Given, pse: Tensor, batch: Any, tokens: Any) -> None:
    rules.rank("pse", pse, 4)
    rules.one_or("pse.size(0)", pse.size(0), "the batch", batch)
    rules.equal("pse.size(1)", pse.size(1), "head_num", given["head_num"])
    key_tokens = given["key"].size(given["input_layout"].index("S"))
    rules.equal("pse.size(3)", pse.size(3), "the tokens of key", key_tokens)
    if guard_or_false(pse.size(2) == ROWS) and guard_or_false(tokens > ROWS):
        rules.equal("the tokens of key", key_tokens, f"those of query, for the last {ROWS} rows of a shift,", tokens)
        _check_causal(rules, given)
    else:
        rules.one_or("pse.size(2)", pse.size(2), "the tokens of query", tokens)


def _check_causal(rules: Rules, given: Given) -> None:
    mode = given["sparse_mode"]
    rules.require(
        mode in CAUSAL and given["atten_mask"] is not None,
        lambda: f"pse of {ROWS} rows must go with a causal mask in sparse_mode 0, 2 or 3, got sparse_mode {mode}",
    )
