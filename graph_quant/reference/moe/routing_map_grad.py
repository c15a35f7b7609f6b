"""The gradients of npu_moe_token_permute_with_routing_map and npu_moe_token_unpermute_with_routing_map.

Without ``drop_and_pad`` they are those of npu_moe_token_permute and npu_moe_token_unpermute, the experts of a token in
ascending order; a probability without a row has the gradient 0. With it the index holds the token of each row, and a
token's rows are added in float32, from the first on.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from graph_quant.reference.checks import value_check
from graph_quant.reference.moe.routing_map import (
    IN,
    OUT,
    checked_binary,
    checked_expert_count,
    checked_rows,
    chosen_first,
)
from graph_quant.reference.moe.token_permute import sum_rows
from graph_quant.reference.moe.token_permute_grad import gradients
from graph_quant.refusals import Refusal
from torch import Tensor

from ...releases.alternatives import guard_or_false

TOKENS_GRAD, ROWS_GRAD = f"{IN}_grad", f"{OUT}_grad"


def permute_with_routing_map_grad(
    permuted_token_out_grad: Tensor,
    probs_grad: Tensor | None,
    sorted_indices: Tensor,
    routing_map: Tensor,
    drop_and_pad: bool,
) -> tuple[Tensor, Tensor | None]:
    """The gradients of the tokens and of the probabilities."""
    rows, tokens = permuted_token_out_grad.size(0), routing_map.size(0)
    positions = checked_rows(TOKENS_GRAD, "sorted_indices", sorted_indices, tokens if drop_and_pad else max(rows, 1))
    if drop_and_pad or rows == 0:
        checked = checked_binary(TOKENS_GRAD, routing_map)
    else:
        checked = checked_expert_count(TOKENS_GRAD, routing_map, rows // tokens)
    return of_tokens(permuted_token_out_grad, probs_grad, positions, checked, drop_and_pad, _summed)


def _summed(rows: Tensor, position_of: Tensor) -> Tensor:
    return sum_rows(rows, position_of, None)


def of_tokens(
    grad: Tensor,
    probs_grad: Tensor | None,
    positions: Tensor,
    routing_map: Tensor,
    drop_and_pad: bool,
    sum_rows: Callable[[Tensor, Tensor], Tensor],
) -> tuple[Tensor, Tensor | None]:
    """``permute_with_routing_map_grad`` of checked arguments; ``sum_rows`` adds the rows of a token."""
    (tokens, experts), rows = routing_map.shape, grad.size(0)
    zeros = None if probs_grad is None else probs_grad.new_zeros(tokens, experts)
    if guard_or_false(rows == 0):
        return grad.new_zeros(tokens, grad.size(1)), zeros
    if drop_and_pad:
        sums = torch.zeros(tokens, grad.size(1), device=grad.device).index_add(0, positions, grad.float())
        return sums.to(grad.dtype), None if probs_grad is None else _at_rows(probs_grad, positions, tokens, experts)
    tokens_grad = sum_rows(grad, positions.reshape(tokens, rows // tokens))
    if probs_grad is None or zeros is None:
        return tokens_grad, None
    chosen = chosen_first(routing_map, rows // tokens)
    return tokens_grad, zeros.scatter(1, chosen, probs_grad.index_select(0, positions).reshape(chosen.shape))


def _at_rows(values: Tensor, token_of: Tensor, tokens: int, experts: int) -> Tensor:
    """``values`` of padded rows, the same number for each expert, as (tokens, experts)."""
    expert_of = torch.arange(values.size(0), device=values.device) // (values.size(0) // experts)
    return values.new_zeros(tokens * experts).scatter(0, token_of * experts + expert_of, values).reshape(tokens, -1)


def unpermute_with_routing_map_grad(
    unpermuted_tokens_grad: Tensor,
    out_index: Tensor,
    permuted_token_id: Tensor,
    routing_map: Tensor | None,
    permuted_tokens: Tensor | None,
    probs: Tensor | None,
    drop_and_pad: bool,
) -> tuple[Tensor, Tensor | None]:
    """The gradients of the rows and of the probabilities."""
    pairs, tokens = out_index.size(0), unpermuted_tokens_grad.size(0)
    positions, token_of = checked_rows(ROWS_GRAD, "out_index", out_index, pairs), permuted_token_id
    if drop_and_pad:
        positions = each_row_once(ROWS_GRAD, "out_index", positions)
        token_of = checked_rows(ROWS_GRAD, "permuted_token_id", permuted_token_id, tokens)
    if routing_map is not None and probs is not None and not drop_and_pad:
        routing_map = checked_expert_count(ROWS_GRAD, routing_map, pairs // tokens)
    return of_rows(unpermuted_tokens_grad, positions, token_of, routing_map, permuted_tokens, probs, drop_and_pad)


@value_check
def each_row_once(op: str, name: str, index: Tensor) -> Tensor:
    """``index``, with values below its length, refused where a row occurs twice: another row would not be written."""
    _, first = np.unique(index.numpy(), return_index=True)
    if len(first) < len(index):
        again = int(np.setdiff1d(np.arange(len(index)), first)[0])
        raise Refusal(f"{op}: {name}[{again}] must be a row that no other names, got {int(index[again])}")
    return index


def of_rows(
    unpermuted_tokens_grad: Tensor,
    out_index: Tensor,
    permuted_token_id: Tensor,
    routing_map: Tensor | None,
    permuted_tokens: Tensor | None,
    probs: Tensor | None,
    drop_and_pad: bool,
) -> tuple[Tensor, Tensor | None]:
    """``unpermute_with_routing_map_grad`` of checked arguments."""
    grad, rows = unpermuted_tokens_grad, out_index.size(0)
    if drop_and_pad:
        token_of_row = torch.zeros_like(permuted_token_id).scatter(0, out_index.long(), permuted_token_id)
        return _of_padded_rows(grad, token_of_row.long(), permuted_tokens, probs)
    experts_a_token = rows // grad.size(0)
    if probs is None or routing_map is None:
        ones = torch.ones(grad.size(0), experts_a_token, dtype=grad.dtype, device=grad.device)
        return gradients(grad, out_index, ones, None, rows)[0], None
    chosen = chosen_first(routing_map, experts_a_token)
    rows_grad, weights_grad = gradients(grad, out_index, probs.gather(1, chosen), permuted_tokens, rows)
    return rows_grad, None if weights_grad is None else torch.zeros_like(probs).scatter(1, chosen, weights_grad)


def _of_padded_rows(
    grad: Tensor, token_of: Tensor, permuted_tokens: Tensor | None, probs: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    grad_rows = grad.index_select(0, token_of)
    if probs is None or permuted_tokens is None:
        return grad_rows, None
    tokens, experts = probs.shape
    weights = probs.t().gather(1, token_of.reshape(experts, -1)).reshape(-1, 1).float()
    products = (permuted_tokens.float() * grad_rows.float()).sum(1).to(probs.dtype)
    return (grad_rows.float() * weights).to(grad.dtype), _at_rows(products, token_of, tokens, experts)
