"""npu_recurrent_gated_delta_rule and npu_chunk_gated_delta_rule: linear attention with a recurrent state.

The state S (values, keys) of a head decays and is updated with each token: ``S = exp(g) * S``, also by ``exp(gk)`` per
key channel; ``S = S + beta * (v - S @ k) * k``; the result is ``S @ (q * scale)``. Float32, token by token; results and
states are rounded when they are stored. The recurrent form starts from the state of the last accepted token and stores
one state per token, at the index in ssm_state_indices. The chunk form returns the last state only; its kernel processes
chunks of tokens and rounds matmuls between them: upstream's test compares it with the recurrence to one hundredth.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from graph_quant.ge import kernel
from graph_quant.reference.index_checks import checked_index
from graph_quant.reference.opaque import opaque
from graph_quant.refusals import Refusal
from torch import Tensor

OP, CHUNK_OP = "npu_recurrent_gated_delta_rule", "npu_chunk_gated_delta_rule"
MOST_TOKENS = 8


class Recurrence:
    """The tokens of a call in float32, and the update of a state by one token."""

    def __init__(
        self, query: Tensor, key: Tensor, value: Tensor, beta: Tensor, scale: float, g: Tensor | None, gk: Tensor | None
    ) -> None:
        share = value.size(1) // key.size(1)
        self.query = (query.float() * scale).repeat_interleave(share, 1)
        self.key, self.value = key.float().repeat_interleave(share, 1), value.float()
        self.beta = beta.float()
        self.decay = None if g is None else g.exp()
        self.decay_of_keys = None if gk is None else gk.exp()

    def next(self, state: Tensor, token: int) -> tuple[Tensor, Tensor]:
        """The state after ``token``, (heads, channels of values, channels of keys), and the token's result."""
        if self.decay is not None:
            state = state * self.decay[token, :, None, None]
        if self.decay_of_keys is not None:
            state = state * self.decay_of_keys[token, :, None]
        key = self.key[token, :, None]
        learnt = (self.value[token] - (state * key).sum(-1)) * self.beta[token, :, None]
        state = state + learnt[..., None] * key
        return state, (state * self.query[token, :, None]).sum(-1)


def _checked_lengths(op: str, lengths: Tensor, tokens: int, most: int) -> list[int]:
    """The length of each sequence, refused where the sum is not the number of tokens."""
    chosen: list[int] = checked_index(op, "actual_seq_lengths", lengths, 1, most + 1).tolist()
    if sum(chosen) != tokens:
        raise Refusal(f"{op}: actual_seq_lengths must add up to the {tokens} tokens, got {sum(chosen)}")
    return chosen


def _accepted_count(accepted: Tensor | None, sequence: int, length: int) -> int:
    count = 1 if accepted is None else int(accepted[sequence])
    if not 1 <= count <= length:
        raise Refusal(
            f"{OP}: num_accepted_tokens[{sequence}] must lie in [1, {length}], the tokens there are, got {count}"
        )
    return count


def _infer_recurrent(query: Tensor, key: Tensor, value: Tensor, state: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    del query, key
    return value.new_empty(value.shape), state.new_empty(state.shape)


@opaque(_infer_recurrent)
def recurrent_gated_delta_rule_functional(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    state: Tensor,
    beta: Tensor,
    scale: float,
    actual_seq_lengths: Tensor,
    ssm_state_indices: Tensor,
    num_accepted_tokens: Tensor | None,
    g: Tensor | None,
    gk: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """The results, and a copy of the states that holds the state after each token."""
    steps = Recurrence(query, key, value, beta, scale, g, gk)
    state_indices = checked_index(OP, "ssm_state_indices", ssm_state_indices, 0, state.size(0)).tolist()
    out, kept, start = torch.empty(value.shape), state.clone(), 0
    for sequence, length in enumerate(_checked_lengths(OP, actual_seq_lengths, value.size(0), MOST_TOKENS)):
        current = state[state_indices[start + _accepted_count(num_accepted_tokens, sequence, length) - 1]].float()
        for token in range(start, start + length):
            current, out[token] = steps.next(current, token)
            kept[state_indices[token]] = current.to(state.dtype)
        start += length
    return out.to(value.dtype), kept


@functools.wraps(recurrent_gated_delta_rule_functional)
def recurrent_gated_delta_rule(**arguments: Any) -> Tensor:
    """The results; states are written in place."""
    out, kept = recurrent_gated_delta_rule_functional(**arguments)
    arguments["state"].copy_(kept)
    return out


def _infer_chunk(
    query: Tensor, key: Tensor, value: Tensor, beta: Tensor, state: Tensor, *_: Any
) -> tuple[Tensor, Tensor]:
    del query, key, beta
    return value.new_empty(value.shape), state.new_empty(state.shape)


@opaque(_infer_chunk)
def chunk_gated_delta_rule(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    beta: Tensor,
    initial_state: Tensor,
    actual_seq_lengths: Tensor,
    scale: float,
    g: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """The results, and the state after the last token of each sequence."""
    steps = Recurrence(query, key, value, beta, scale, g, None)
    out, last, start = torch.empty(value.shape), torch.empty_like(initial_state), 0
    for sequence, length in enumerate(_checked_lengths(CHUNK_OP, actual_seq_lengths, value.size(0), value.size(0))):
        current = initial_state[sequence].float()
        for token in range(start, start + length):
            current, out[token] = steps.next(current, token)
        last[sequence] = current.to(initial_state.dtype)
        start += length
    return out.to(value.dtype), last


@kernel("RecurrentGatedDeltaRule", flops=8, may_alias=True)
def recurrent_gated_delta_rule_node(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    beta: Tensor,
    state: Tensor,
    actual_seq_lengths: Tensor,
    ssm_state_indices: Tensor,
    g: Tensor | None = None,
    gk: Tensor | None = None,
    num_accepted_tokens: Tensor | None = None,
    *,
    scale_value: float = 1.0,
) -> tuple[Tensor, Tensor]:
    lengths = actual_seq_lengths, ssm_state_indices, num_accepted_tokens
    out, kept = recurrent_gated_delta_rule_functional(query, key, value, state, beta, scale_value, *lengths, g, gk)
    return out, state.copy_(kept)


@kernel("ChunkGatedDeltaRule", flops=8)
def chunk_gated_delta_rule_node(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    beta: Tensor,
    initial_state: Tensor,
    actual_seq_lengths: Tensor,
    g: Tensor | None = None,
    *,
    scale_value: float = 1.0,
) -> tuple[Tensor, Tensor]:
    return chunk_gated_delta_rule(query, key, value, beta, initial_state, actual_seq_lengths, scale_value, g)
