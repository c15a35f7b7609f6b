"""The gradients of npu_moe_token_permute and npu_moe_token_unpermute, which torch_npu's autograd calls.

The inputs are the gradient of the rows, or of the tokens, and the position of each pair. Each operator has two
versions: one takes the tensor whose gradient is computed, the other (_v2) its number of rows and dtype. Dtypes are
those of the forward call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from graph_quant.meta.moe.token_permute import MOST_EXPERTS_A_TOKEN, refuse_padding
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import FLOATS, Rules, Size
from graph_quant.reference.moe.token_permute_grad import token_permute_grad as permute_grad
from graph_quant.reference.moe.token_permute_grad import token_unpermute_grad as unpermute_grad
from torch import Tensor


@dataclass(frozen=True)
class PermuteGradPlan(Plan):
    """``experts_a_token`` is the number of rows per token."""

    experts_a_token: int


@dataclass(frozen=True)
class UnpermuteGradPlan(Plan):
    """``rows`` is the number of rows that were summed."""

    rows: Size


@operator("npu_moe_token_permute_grad_v2", reference=permute_grad)
def token_permute_grad_v2(
    rules: Rules,
    grad_permuted_tokens: Tensor,
    sorted_indices: Tensor,
    tokens_size_0: int,
    tokens_dtype: torch.dtype,
    num_topk: int,
    padded_mode: bool,
) -> PermuteGradPlan:
    """The plan of a call that the device allows; any other call is refused."""
    refuse_padding(rules, padded_mode)
    _check_gradient(rules, "grad_permuted_tokens", grad_permuted_tokens, "tokens_dtype", tokens_dtype)
    rules.at_least("num_topK", num_topk, 1)
    _check_positions(rules, sorted_indices, "num_topK", num_topk, "tokens_size_0", tokens_size_0)
    result = Result((tokens_size_0, grad_permuted_tokens.size(1)), tokens_dtype)
    # A constant in the graph.
    return PermuteGradPlan((result,), int(num_topk))


@operator("npu_moe_token_permute_grad", reference=permute_grad)
def token_permute_grad(
    rules: Rules,
    tokens: Tensor,
    grad_permuted_tokens: Tensor,
    indices: Tensor,
    sorted_indices: Tensor,
    padded_mode: bool,
) -> PermuteGradPlan:
    """The plan of a call that the device allows; any other call is refused."""
    refuse_padding(rules, padded_mode)
    rules.rank("tokens", tokens, 2)
    rules.rank("indices", indices, 1, 2)
    experts = indices.size(1) if indices.dim() == 2 else 1
    _check_gradient(rules, "grad_permuted_tokens", grad_permuted_tokens, "tokens", tokens.dtype)
    rules.equal("grad_permuted_tokens.size(1)", grad_permuted_tokens.size(1), "tokens.size(1)", tokens.size(1))
    _check_positions(rules, sorted_indices, "indices.size(1)", experts, "tokens.size(0)", tokens.size(0))
    return PermuteGradPlan((Result(tuple(tokens.shape), tokens.dtype),), int(experts))


@operator("npu_moe_token_unpermute_grad_v2", reference=unpermute_grad)
def token_unpermute_grad_v2(
    rules: Rules,
    grad_unpermuted_tokens: Tensor,
    sorted_indices: Tensor,
    permuted_tokens_size_0: int,
    permuted_tokens_dtype: torch.dtype,
    probs: Tensor | None,
    padded_mode: bool,
    restore_shape: Sequence[int] | None,  # noqa: ARG001
    permuted_tokens: Tensor | None,
) -> UnpermuteGradPlan:
    """The plan of a call that the device allows; any other call is refused."""
    refuse_padding(rules, padded_mode)
    _check_gradient(
        rules, "grad_unpermuted_tokens", grad_unpermuted_tokens, "permuted_tokens_dtype", permuted_tokens_dtype
    )
    if permuted_tokens is not None:
        _check_rows(rules, permuted_tokens, grad_unpermuted_tokens)
        size = permuted_tokens.size(0)
        rules.equal("permuted_tokens.size(0)", size, "permuted_tokens_size_0", permuted_tokens_size_0)
    elif probs is not None:
        rules.refuse("permuted_tokens must be given with probs, got None")
    return _unpermute_grad_plan(rules, grad_unpermuted_tokens, sorted_indices, probs, permuted_tokens_size_0)


@operator("npu_moe_token_unpermute_grad", reference=unpermute_grad)
def token_unpermute_grad(
    rules: Rules,
    permuted_tokens: Tensor,
    grad_unpermuted_tokens: Tensor,
    sorted_indices: Tensor,
    probs: Tensor | None,
    padded_mode: bool,
    restore_shape: Sequence[int] | None,  # noqa: ARG001
) -> UnpermuteGradPlan:
    """The plan of a call that the device allows; any other call is refused."""
    refuse_padding(rules, padded_mode)
    _check_gradient(rules, "grad_unpermuted_tokens", grad_unpermuted_tokens, "permuted_tokens", permuted_tokens.dtype)
    _check_rows(rules, permuted_tokens, grad_unpermuted_tokens)
    return _unpermute_grad_plan(rules, grad_unpermuted_tokens, sorted_indices, probs, permuted_tokens.size(0))


def _unpermute_grad_plan(
    rules: Rules, grad: Tensor, sorted_indices: Tensor, probs: Tensor | None, rows: Size
) -> UnpermuteGradPlan:
    experts: Size = 1
    if probs is not None:
        rules.dtype("probs", probs, FLOATS)
        rules.rank("probs", probs, 2)
        rules.equal("probs.size(0)", probs.size(0), "grad_unpermuted_tokens.size(0)", grad.size(0))
        experts = probs.size(1)
    _check_positions(rules, sorted_indices, "probs.size(1)", experts, "grad_unpermuted_tokens.size(0)", grad.size(0))
    of_rows = Result((rows, grad.size(1)), grad.dtype)
    return UnpermuteGradPlan((of_rows, None if probs is None else Result(tuple(probs.shape), probs.dtype)), rows)


def _check_gradient(rules: Rules, name: str, grad: Tensor, like_name: str, dtype: torch.dtype) -> None:
    rules.dtype(name, grad, FLOATS)
    rules.dtype(name, grad, (dtype,), f", the dtype of {like_name}")
    rules.rank(name, grad, 2)


def _check_rows(rules: Rules, permuted_tokens: Tensor, grad: Tensor) -> None:
    rules.dtype("permuted_tokens", permuted_tokens, (grad.dtype,), ", the dtype of grad_unpermuted_tokens")
    rules.rank("permuted_tokens", permuted_tokens, 2)
    rules.equal("permuted_tokens.size(1)", permuted_tokens.size(1), "grad_unpermuted_tokens.size(1)", grad.size(1))


def _check_positions(
    rules: Rules, sorted_indices: Tensor, experts_name: str, experts: Size, tokens_name: str, tokens: Size
) -> None:
    rules.dtype("sorted_indices", sorted_indices, (torch.int32,))
    rules.rank("sorted_indices", sorted_indices, 1)
    rules.require(experts <= MOST_EXPERTS_A_TOKEN, lambda: f"{experts_name} must be at most 512, got {experts}")
    rules.require(
        sorted_indices.size(0) == tokens * experts,
        lambda: (
            f"sorted_indices.size(0) must equal {tokens_name} times {experts_name}, "
            f"got {sorted_indices.size(0)} and {tokens} times {experts}"
        ),
    )
