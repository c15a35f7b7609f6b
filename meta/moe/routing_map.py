"""npu_moe_token_permute_with_routing_map and its inverse: what may be passed, and what comes back.

tokens is (tokens, H), routing_map (tokens, experts) of bool or int8, probs of the same shape and of the tokens' dtype.
num_out_tokens, by default the number of tokens, is rounded down to a multiple of the tokens, or with drop_and_pad of
the experts. For the inverse, permuted_tokens and sorted_indices have a row for each pair, the same number for each
token, or with drop_and_pad for each expert; restore_shape is (tokens, H).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import FLOATS, Rules, Size
from graph_quant.reference.moe import routing_map as reference
from torch import Tensor

MOST_EXPERTS_A_TOKEN, MOST_SORTED = 512, 2**24 - 1


@dataclass(frozen=True)
class PermutePlan(Plan):
    """``rows`` is the number of rows of the result."""

    rows: Size


@operator("npu_moe_token_permute_with_routing_map", reference=reference.permute_with_routing_map)
def permute(
    rules: Rules,
    tokens: Tensor,
    routing_map: Tensor,
    probs: Tensor | None,
    num_out_tokens: int | None,
    drop_and_pad: bool,
) -> PermutePlan:
    """The plan of a call that the device allows; any other call is refused."""
    rules.dtype("tokens", tokens, FLOATS)
    rules.rank("tokens", tokens, 2)
    rules.not_empty("tokens", tokens)
    check_map(rules, routing_map)
    rules.equal("routing_map.size(0)", routing_map.size(0), "tokens.size(0)", tokens.size(0))
    if probs is not None:
        check_probs(rules, probs, "tokens", tokens)
        check_same_shape(rules, routing_map, probs)
    count, experts = routing_map.shape
    requested = count if num_out_tokens is None else num_out_tokens
    rules.at_least("num_out_tokens", requested, 0)
    rules.require(
        requested <= count * experts,
        lambda: f"num_out_tokens must be at most routing_map.numel(), got {requested} and {count * experts}",
    )
    check_experts_a_token(rules, "num_out_tokens // tokens.size(0)", requested // count)
    rows = reference.kept_rows(routing_map, num_out_tokens, drop_and_pad)
    at_once = count if drop_and_pad else rows
    rules.require(
        at_once < MOST_SORTED, lambda: f"tokens.size(0) must be less than {MOST_SORTED} in all, got {at_once}"
    )
    weights = None if probs is None else Result((rows,), probs.dtype)
    return PermutePlan((Result((rows, tokens.size(1)), tokens.dtype), weights, Result((rows,), torch.int32)), rows)


@operator(
    "npu_moe_token_unpermute_with_routing_map",
    reference=reference.first(reference.unpermute_with_routing_map),
    results=lambda results: results[:1],
)
@operator("_npu_moe_token_unpermute_with_routing_map", reference=reference.unpermute_with_routing_map)
def unpermute(
    rules: Rules,
    permuted_tokens: Tensor,
    sorted_indices: Tensor,
    restore_shape: Sequence[int],
    probs: Tensor | None,
    routing_map: Tensor | None,
    drop_and_pad: bool,
) -> Plan:
    """The plan of a call that the device allows; any other call is refused. Autograd calls the private operator."""
    rules = replace(rules, op=reference.OUT)
    rules.dtype("permuted_tokens", permuted_tokens, FLOATS)
    rules.rank("permuted_tokens", permuted_tokens, 2)
    rules.not_empty("permuted_tokens", permuted_tokens)
    rules.dtype("sorted_indices", sorted_indices, (torch.int32,))
    rules.rank("sorted_indices", sorted_indices, 1)
    pairs, width = permuted_tokens.shape
    rules.equal("sorted_indices.size(0)", sorted_indices.size(0), "permuted_tokens.size(0)", pairs)
    rules.require(len(restore_shape) == 2, lambda: f"restore_shape must be (tokens, H), got {list(restore_shape)}")
    tokens = restore_shape[0]
    rules.at_least("restore_shape[0]", tokens, 1)
    rules.equal("restore_shape[1]", restore_shape[1], "permuted_tokens.size(1)", width)
    if routing_map is not None:
        check_map(rules, routing_map)
    if probs is not None:
        check_probs(rules, probs, "permuted_tokens", permuted_tokens)
        rules.equal("probs.size(0)", probs.size(0), "restore_shape[0]", tokens)
    if drop_and_pad:
        experts = 1 if probs is None else probs.size(1)
        check_multiple(rules, "permuted_tokens.size(0)", pairs, "probs.size(1)", experts)
    else:
        check_multiple(rules, "permuted_tokens.size(0)", pairs, "restore_shape[0]", tokens)
        check_experts_a_token(rules, "permuted_tokens.size(0) // restore_shape[0]", pairs // tokens)
        if probs is not None:
            if routing_map is None:
                rules.refuse("routing_map must be given with probs, unless drop_and_pad, got None")
            check_same_shape(rules, routing_map, probs)
    index = Result((pairs,), torch.int32)
    weights = None if probs is None else Result((pairs,), probs.dtype)
    return Plan((Result((tokens, width), permuted_tokens.dtype), index, index, weights))


def check_map(rules: Rules, routing_map: Tensor) -> None:
    """Require that a map is (tokens, experts), of bool or int8."""
    rules.dtype("routing_map", routing_map, (torch.bool, torch.int8))
    rules.rank("routing_map", routing_map, 2)
    rules.not_empty("routing_map", routing_map)


def check_probs(rules: Rules, probs: Tensor, like_name: str, like: Tensor) -> None:
    """Require that probabilities are a matrix of the dtype of the tokens."""
    rules.dtype("probs", probs, (like.dtype,), f", the dtype of {like_name}")
    rules.rank("probs", probs, 2)
    rules.not_empty("probs", probs)


def check_same_shape(rules: Rules, routing_map: Tensor, probs: Tensor) -> None:
    """Require a probability for each entry of the map."""
    for dim in range(2):
        rules.equal(f"probs.size({dim})", probs.size(dim), f"routing_map.size({dim})", routing_map.size(dim))


def check_multiple(rules: Rules, name: str, rows: Size, other_name: str, other: Size) -> None:
    """Require that a number of rows is a multiple of ``other``."""
    rules.require(
        rows % other == 0,  # type: ignore[operator]
        lambda: f"{name} must be a multiple of {other_name}, got {rows} and {other}",
    )


def check_experts_a_token(rules: Rules, name: str, experts: Size) -> None:
    """Require that a token has at most 512 experts."""
    rules.require(experts <= MOST_EXPERTS_A_TOKEN, lambda: f"{name} must be at most 512, got {experts}")
