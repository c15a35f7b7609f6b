"""The gradients of npu_moe_token_permute and npu_moe_token_unpermute.

A token's gradient is the sum of those of its rows, in float32. A row's gradient is that of its token, times the
probability of its pair, in float32 and rounded once; the gradient of a probability is the dot product of the two rows
in float32. Dropped pairs, and rows without a pair, which the device does not write, have the gradient 0.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from graph_quant.ge import kernel
from graph_quant.reference.blocks import by_row_blocks
from graph_quant.reference.moe.token_permute import checked_positions, sum_rows
from torch import Tensor

from ...releases.alternatives import guard_or_false


def token_permute_grad(grad_permuted_tokens: Tensor, sorted_indices: Tensor, experts_a_token: int) -> Tensor:
    """The gradient of the tokens."""
    position_of = checked_positions("npu_moe_token_permute_grad", sorted_indices).reshape(-1, experts_a_token)
    if grad_permuted_tokens.size(0) == 0:
        return grad_permuted_tokens.new_zeros(position_of.size(0), grad_permuted_tokens.size(1))
    return sum_rows(grad_permuted_tokens, position_of, None)


@kernel("MoeTokenPermuteGrad", flops=1)
def token_permute_grad_node(
    permuted_output_grad: Tensor,
    sorted_indices: Tensor,
    *,
    num_topk: int,
    padded_mode: bool = False,  # noqa: ARG001
) -> Tensor:
    return token_permute_grad(permuted_output_grad, sorted_indices, num_topk)


def token_unpermute_grad(
    grad_unpermuted_tokens: Tensor,
    sorted_indices: Tensor,
    probs: Tensor | None,
    permuted_tokens: Tensor | None,
    rows: int,
) -> tuple[Tensor, Tensor | None]:
    """The gradients of the rows and of the probabilities."""
    return gradients(
        grad_unpermuted_tokens,
        checked_positions("npu_moe_token_unpermute_grad", sorted_indices),
        probs,
        permuted_tokens,
        rows,
    )


def gradients(
    grad_unpermuted_tokens: Tensor,
    sorted_indices: Tensor,
    probs: Tensor | None,
    permuted_tokens: Tensor | None,
    rows: int,
) -> tuple[Tensor, Tensor | None]:
    """``token_unpermute_grad`` of checked indices."""
    grad, pairs, experts = grad_unpermuted_tokens, sorted_indices.size(0), 1 if probs is None else probs.size(1)
    weights = None if probs is None else probs.reshape(-1)
    # Dropped pairs go to one extra row, which is cut off.
    position = torch.clamp(sorted_indices.long(), max=rows)
    unused = torch.full_like(position[:1], pairs).expand(rows + 1)
    pair_of_row = unused.scatter(0, position, torch.arange(pairs, device=grad.device))[:rows]
    of_rows = _rows_of_pairs(grad, pair_of_row, experts, weights)
    if permuted_tokens is None or probs is None:
        return of_rows, None
    return of_rows, _products(grad, permuted_tokens, position, experts).to(probs.dtype).reshape(probs.shape)


def _rows_of_pairs(grad: Tensor, pair_of_row: Tensor, experts: int, weights: Tensor | None) -> Tensor:
    pairs = grad.size(0) * experts

    def block(part: slice) -> tuple[Tensor]:
        is_used = pair_of_row[part] < pairs
        pair = torch.where(is_used, pair_of_row[part], 0)
        rows = grad.index_select(0, pair // experts)
        if weights is not None:
            weight = weights.index_select(0, pair).float().unsqueeze(-1)
            rows = (rows.float() * weight).to(grad.dtype)
        return (torch.where(is_used.unsqueeze(-1), rows, 0),)

    return _in_blocks(block, pair_of_row.size(0), grad.size(1))


def _products(grad: Tensor, permuted_tokens: Tensor, position: Tensor, experts: int) -> Tensor:
    token = torch.arange(position.size(0), device=grad.device) // experts
    rows = permuted_tokens.size(0)
    if guard_or_false(rows == 0):
        return torch.zeros(position.size(0), device=grad.device)

    def block(part: slice) -> tuple[Tensor]:
        is_kept = position[part] < rows
        values = permuted_tokens.index_select(0, torch.where(is_kept, position[part], 0)).float()
        sums = (values * grad.index_select(0, token[part]).float()).sum(1)
        return (torch.where(is_kept, sums, 0),)

    return _in_blocks(block, position.size(0), grad.size(1))


def _in_blocks(block: Callable[[slice], tuple[Tensor]], rows: int, width: int) -> Tensor:
    if torch.compiler.is_compiling() or not isinstance(rows, int):
        return block(slice(None))[0]
    return by_row_blocks(block, rows, width)[0]
