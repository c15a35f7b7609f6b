"""npu_moe_token_permute and npu_moe_token_unpermute: what may be passed, and what comes back.

tokens is (tokens, H) and indices the expert of each token, or (tokens, K) for K of them, at most 512.
num_out_tokens is the number of rows of the result: all (None or 0), at most that many, or, negative, all but that many.
For the inverse, sorted_indices has the position of each pair and probs (tokens, K) its weight. A2 and A3 have no
padded_mode.

On Ascend 950 num_out_tokens is not negative, and keeps all rows of int8. There are no GE nodes for these operators: its
graphs are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from graph_quant.chip import A2_A3_950, ASCEND_950
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import FLOATS, Rules, Size
from graph_quant.reference.moe.token_permute import (
    kept_rows,
)
from graph_quant.reference.moe.token_permute import (
    token_permute as permute,
)
from graph_quant.reference.moe.token_permute import (
    token_unpermute as unpermute,
)
from graph_quant.reference.moe.token_permute import (
    token_unpermute_for_autograd as unpermute_for_autograd,
)
from torch import Tensor

MOST_EXPERTS_A_TOKEN, MOST_PAIRS = 512, 2**24 - 1


@operator("npu_moe_token_permute", reference=permute, chips=A2_A3_950)
def token_permute(rules: Rules, tokens: Tensor, indices: Tensor, num_out_tokens: int | None, padded_mode: bool) -> Plan:
    """The plan of a call that the device allows; any other call is refused."""
    rules.dtype("tokens", tokens, (*FLOATS, torch.int8))
    rules.rank("tokens", tokens, 2)
    rules.not_empty("tokens", tokens)
    rules.dtype("indices", indices, (torch.int32, torch.int64))
    rules.rank("indices", indices, 1, 2)
    rules.equal("indices.size(0)", indices.size(0), "tokens.size(0)", tokens.size(0))
    rules.not_empty("indices", indices)
    experts = indices.size(1) if indices.dim() == 2 else 1
    rules.require(experts <= MOST_EXPERTS_A_TOKEN, lambda: f"indices.size(1) must be at most 512, got {experts}")
    refuse_padding(rules, padded_mode)
    pairs = tokens.size(0) * experts
    rules.require(pairs < MOST_PAIRS, lambda: f"indices.numel() must be less than {MOST_PAIRS}, got {pairs}")
    kept = kept_rows(pairs, num_out_tokens)
    if rules.chip is ASCEND_950:
        rules.at_least("num_out_tokens", num_out_tokens or 0, 0)
        rules.require(
            tokens.dtype != torch.int8 or kept == pairs,
            lambda: f"num_out_tokens must keep all {pairs} rows of int8 on Ascend 950, got {num_out_tokens}",
        )
    return Plan((Result((kept, tokens.size(1)), tokens.dtype), Result((pairs,), torch.int32)))


@operator("npu_moe_token_unpermute", reference=unpermute, chips=A2_A3_950)
def token_unpermute(
    rules: Rules,
    permuted_tokens: Tensor,
    sorted_indices: Tensor,
    probs: Tensor | None,
    padded_mode: bool,
    restore_shape: Sequence[int] | None,  # noqa: ARG001
) -> Plan:
    """The plan of a call that the device allows; any other call is refused."""
    return Plan((_check_unpermute(rules, permuted_tokens, sorted_indices, probs, padded_mode),))


@operator("_npu_moe_token_unpermute", reference=unpermute_for_autograd, chips=A2_A3_950)
def token_unpermute_for_autograd(
    rules: Rules,
    permuted_tokens: Tensor,
    sorted_indices: Tensor,
    probs: Tensor | None,
    padded_mode: bool,
    restore_shape: Sequence[int] | None,  # noqa: ARG001
) -> Plan:
    """The operator that torch_npu's autograd calls; its rules are those of npu_moe_token_unpermute.

    It returns the rows themselves, for the gradient of probs; without probs, None. In a trace the second result is a
    new tensor, because a functional operator must not return its arguments.
    """
    rules = replace(rules, op="npu_moe_token_unpermute")
    result = _check_unpermute(rules, permuted_tokens, sorted_indices, probs, padded_mode)
    if not rules.is_eager:
        return Plan((result, Result(tuple(permuted_tokens.shape), permuted_tokens.dtype)))
    return Plan((result, None if probs is None else "permuted_tokens"))


def _check_unpermute(
    rules: Rules, permuted_tokens: Tensor, sorted_indices: Tensor, probs: Tensor | None, padded_mode: bool
) -> Result:
    rules.dtype("permuted_tokens", permuted_tokens, FLOATS)
    rules.rank("permuted_tokens", permuted_tokens, 2)
    rules.not_empty("permuted_tokens", permuted_tokens)
    rules.dtype("sorted_indices", sorted_indices, (torch.int32,))
    rules.rank("sorted_indices", sorted_indices, 1)
    rules.not_empty("sorted_indices", sorted_indices)
    refuse_padding(rules, padded_mode)
    tokens: Size = sorted_indices.size(0)
    if probs is not None:
        rules.dtype("probs", probs, FLOATS)
        rules.rank("probs", probs, 2)
        rules.not_empty("probs", probs)
        rules.require(
            probs.size(1) <= MOST_EXPERTS_A_TOKEN, lambda: f"probs.size(1) must be at most 512, got {probs.size(1)}"
        )
        tokens, pairs = probs.size(0), probs.size(0) * probs.size(1)
        rules.require(
            sorted_indices.size(0) == pairs,
            lambda: f"sorted_indices.size(0) must equal probs.numel(), got {sorted_indices.size(0)} and {pairs}",
        )
    return Result((tokens, permuted_tokens.size(1)), permuted_tokens.dtype)


def refuse_padding(rules: Rules, padded_mode: bool) -> None:
    """Refuse the padded mode, which A2 and A3 do not have."""
    rules.require(not padded_mode, lambda: "padded_mode must be False on A2 and A3, got True")
