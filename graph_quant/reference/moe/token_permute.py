"""npu_moe_token_permute and npu_moe_token_unpermute: tokens to the rows of their experts, and their sum back.

Pair p is token p // K with its expert. Permuted, the pairs are sorted by expert, those of one expert in the order
of their tokens. ``sorted_indices[p]`` is the sorted position of pair p, also beyond the last row if rows were dropped.
Unpermuted, a token is the sum of its rows, in float32, each times its probability. A pair beyond the last row, or with
probability 0, adds nothing, even if its row holds NaN. On Ascend 950 a probability of 0 is a factor like others, the
sum starts from zero, and -1 is a position without a row.
"""

from __future__ import annotations

import torch
from graph_quant.chip import is_950
from graph_quant.ge import kernel
from graph_quant.reference.blocks import by_row_blocks
from graph_quant.reference.checks import value_check
from graph_quant.reference.index_checks import check_range
from torch import Tensor


@value_check
def experts(indices: Tensor) -> Tensor:
    """``indices``, refused where a value is not exact in float32, in which the device sorts."""
    check_range("npu_moe_token_permute", "indices", indices, 0, 2**24)
    return indices


@value_check
def checked_positions(op: str, sorted_indices: Tensor, lowest: int = 0) -> Tensor:
    """``sorted_indices``, refused where a value is below ``lowest``."""
    check_range(op, "sorted_indices", sorted_indices, lowest, 2**31)
    return sorted_indices


@kernel("MoeTokenPermute", flops=0)
def token_permute(
    tokens: Tensor,
    indices: Tensor,
    *,
    num_out_tokens: int | None = 0,
    padded_mode: bool = False,  # noqa: ARG001
) -> tuple[Tensor, Tensor]:
    """``(permuted_tokens, sorted_indices)``."""
    order = torch.sort(experts(indices).reshape(-1), stable=True).indices
    position = torch.arange(order.size(0), dtype=torch.int32, device=tokens.device)
    source = order[: kept_rows(order.size(0), num_out_tokens)] // (1 if indices.dim() == 1 else indices.size(1))
    return tokens.index_select(0, source), torch.empty_like(position).scatter(0, order, position)


def kept_rows(pairs: int, num_out_tokens: int | None) -> int:
    """The number of result rows: all pairs for None or 0, at most ``num_out_tokens``, or, negative, all but those."""
    requested = num_out_tokens or 0
    return torch.sym_min(requested, pairs) if requested > 0 else torch.sym_max(pairs + requested, 0)  # type: ignore[no-any-return]


@kernel("MoeTokenUnpermute", flops=2)
def token_unpermute(
    permuted_tokens: Tensor,
    sorted_indices: Tensor,
    probs: Tensor | None = None,
    *,
    padded_mode: bool = False,  # noqa: ARG001
    restore_shape: list[int] | None = None,  # noqa: ARG001
) -> Tensor:
    """The sum of each token's rows."""
    terms = 1 if probs is None else probs.size(1)
    positions = checked_positions("npu_moe_token_unpermute", sorted_indices, -1 if is_950() else 0).reshape(-1, terms)
    return sum_rows(permuted_tokens, positions, probs)


def sum_rows(rows: Tensor, position_of: Tensor, probs: Tensor | None) -> Tensor:
    """The sum over k of the rows at ``position_of[token, k]``, times ``probs[token, k]`` if present, in float32."""
    on_950 = is_950()

    def block(part: slice) -> tuple[Tensor]:
        total = torch.zeros(position_of[part].size(0), rows.size(1), device=rows.device)
        for term in range(position_of.size(1)):
            position = position_of[part, term]
            adds = (position >= 0) & (position < rows.size(0))
            values = rows.index_select(0, torch.where(adds, position, 0)).float()
            if probs is not None:
                weight = probs[part, term].float()
                values, adds = values * weight.unsqueeze(-1), adds if on_950 else adds & (weight != 0)
            is_first = term == 0 and not on_950
            total = torch.where(adds.unsqueeze(-1), values if is_first else total + values, total)
        return (total.to(rows.dtype),)

    if torch.compiler.is_compiling() or position_of.size(0) == 0:
        return block(slice(None))[0]
    return by_row_blocks(block, position_of.size(0), rows.size(1))[0]


def token_unpermute_for_autograd(
    permuted_tokens: Tensor, sorted_indices: Tensor, probs: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The operator that torch_npu's autograd calls: the result, and the rows that are saved for the gradient."""
    return token_unpermute(permuted_tokens, sorted_indices, probs), permuted_tokens
