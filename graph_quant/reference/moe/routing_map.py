"""npu_moe_token_permute_with_routing_map and npu_moe_token_unpermute_with_routing_map.

The map (tokens, experts) marks the experts of each token. Every token has the same number of experts, K; the operators
then compute as npu_moe_token_permute does, a token's experts in ascending order, and ``probs`` (tokens, experts) is
permuted with the rows.

With ``drop_and_pad`` every expert has the same number of rows, its capacity: first the tokens that the map marks, then
others, both in ascending order. ``sorted_indices[r]`` is the token of row r. Unpermuted, rows are multiplied in their
dtype, and a token's rows are added in float32, from the first on.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from graph_quant.reference.checks import value_check
from graph_quant.reference.index_checks import check_range
from graph_quant.reference.moe.token_permute import sum_rows, token_permute
from graph_quant.refusals import Refusal
from torch import Tensor

from ...releases.alternatives import guard_or_false

IN, OUT = "npu_moe_token_permute_with_routing_map", "npu_moe_token_unpermute_with_routing_map"


@value_check
def checked_binary(op: str, routing_map: Tensor) -> Tensor:
    """``routing_map``, refused where a value is neither 0 nor 1."""
    check_range(op, "routing_map", routing_map.to(torch.int8), 0, 2)
    return routing_map


@value_check
def checked_expert_count(op: str, routing_map: Tensor, k: int) -> Tensor:
    """``routing_map``, refused where a token has more or fewer than ``k`` experts."""
    check_range(op, "routing_map", routing_map.to(torch.int8), 0, 2)
    wrong = (routing_map.sum(1) != k).nonzero()
    if len(wrong):
        token = int(wrong[0])
        many = int(routing_map[token].sum())
        raise Refusal(f"{op}: routing_map[{token}] must name {k} experts, one for each row of a token, got {many}")
    return routing_map


@value_check
def checked_rows(op: str, name: str, index: Tensor, end: int) -> Tensor:
    """``index``, refused where a value is negative or not below ``end``."""
    check_range(op, name, index, 0, end)
    return index


def permute_with_routing_map(
    tokens: Tensor, routing_map: Tensor, probs: Tensor | None, rows: int, drop_and_pad: bool
) -> tuple[Tensor, Tensor | None, Tensor]:
    """``(permuted_tokens, permuted_probs, sorted_indices)``."""
    if drop_and_pad or rows == 0:
        checked = checked_binary(IN, routing_map)
    else:
        checked = checked_expert_count(IN, routing_map, rows // routing_map.size(0))
    return permuted(tokens, checked, probs, rows, drop_and_pad, token_permute)


def kept_rows(routing_map: Tensor, num_out_tokens: int | None, drop_and_pad: bool) -> int:
    """The number of result rows: a multiple of the tokens, or with ``drop_and_pad`` of the experts."""
    multiple = routing_map.size(1 if drop_and_pad else 0)
    requested = routing_map.size(0) if num_out_tokens is None else num_out_tokens
    return requested // multiple * multiple


def permuted(
    tokens: Tensor,
    routing_map: Tensor,
    probs: Tensor | None,
    rows: int,
    drop_and_pad: bool,
    permute: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]],
) -> tuple[Tensor, Tensor | None, Tensor]:
    """``permute_with_routing_map`` of a checked map; ``permute`` is npu_moe_token_permute, eagerly or in a graph."""
    if guard_or_false(rows == 0):
        weights = None if probs is None else probs.new_empty(0)
        return tokens.new_empty(0, tokens.size(1)), weights, tokens.new_empty(0, dtype=torch.int32)
    if drop_and_pad:
        capacity = rows // routing_map.size(1)
        taken = chosen_first(routing_map.t(), capacity)
        weights = None if probs is None else probs.t().gather(1, taken).reshape(-1)
        source = taken.reshape(-1)
        return tokens.index_select(0, source), weights, source.to(torch.int32)
    experts = chosen_first(routing_map, rows // routing_map.size(0))
    permuted_tokens, sorted_indices = permute(tokens, experts)
    if probs is None:
        return permuted_tokens, None, sorted_indices
    picked = probs.gather(1, experts).reshape(-1)
    return permuted_tokens, torch.empty_like(picked).scatter(0, sorted_indices.long(), picked), sorted_indices


def chosen_first(choices: Tensor, count: int) -> Tensor:
    """``count`` indices for each row: first those that are marked, then others, both in ascending order."""
    return torch.sort(choices.to(torch.int8), dim=1, descending=True, stable=True).indices[:, :count]


def unpermute_with_routing_map(
    permuted_tokens: Tensor,
    sorted_indices: Tensor,
    restore_shape: Sequence[int],
    probs: Tensor | None,
    routing_map: Tensor | None,
    drop_and_pad: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """The sum of each token's rows; and for the gradient the rows sorted by token, their tokens and their weights."""
    tokens = restore_shape[0]
    positions = checked_rows(OUT, "sorted_indices", sorted_indices, tokens if drop_and_pad else 2**31)
    if routing_map is not None and probs is not None and not drop_and_pad:
        routing_map = checked_expert_count(OUT, routing_map, permuted_tokens.size(0) // tokens)
    return unpermuted(permuted_tokens, positions, tokens, probs, routing_map, drop_and_pad, sum_rows)


def first(function: Callable[..., tuple[Any, ...]]) -> Callable[..., Tensor]:
    """``function`` with only the first of its results."""

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Tensor:
        result: Tensor = function(*args, **kwargs)[0]
        return result

    return called


def unpermuted(
    rows: Tensor,
    positions: Tensor,
    tokens: int,
    probs: Tensor | None,
    routing_map: Tensor | None,
    drop_and_pad: bool,
    unpermute: Callable[[Tensor, Tensor, Tensor | None], Tensor],
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """``unpermute_with_routing_map`` of checked indices; ``unpermute`` is npu_moe_token_unpermute, eager or lowered."""
    if drop_and_pad:
        return _unpadded(rows, positions, tokens, probs)
    k = rows.size(0) // tokens
    weights = None
    if probs is not None and routing_map is not None:
        weights = probs.gather(1, chosen_first(routing_map, k))
    unused = torch.zeros_like(positions)
    sums = unpermute(rows, positions.reshape(tokens, k), weights)
    return sums, unused, unused.clone(), None if weights is None else weights.reshape(-1)


def _unpadded(
    rows: Tensor, token_of: Tensor, tokens: int, probs: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    weights = None
    if probs is not None:
        weights = probs.t().gather(1, token_of.long().reshape(probs.size(1), -1)).reshape(-1)
        rows = rows * weights.unsqueeze(-1)
    by_token = torch.sort(token_of, stable=True)
    sums = torch.zeros(tokens, rows.size(1), device=rows.device).index_add(0, token_of, rows.float())
    return sums.to(rows.dtype), by_token.indices.to(torch.int32), by_token.values, weights
