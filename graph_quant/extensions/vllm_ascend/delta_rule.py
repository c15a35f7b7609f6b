"""npu_recurrent_gated_delta_rule of vllm-ascend: torch_npu's operator with other lengths and states.

The first of ``actual_seq_lengths`` is the first token, the others are the lengths of the sequences, at most 16 tokens
each; a length of 0 or below is skipped. States are bfloat16 or float32, and ``ssm_state_indices`` may be longer than
the tokens. Tokens of no sequence keep what the memory holds on a device; here their results are zero.
"""

from __future__ import annotations

import torch
from graph_quant.meta import Plan, Result, Rules, operator
from graph_quant.reference.attention.gated_delta_rule import Recurrence
from graph_quant.reference.index_checks import checked_index
from graph_quant.refusals import Refusal
from torch import Tensor

_OP, _MOST_TOKENS, _MOST_HEADS, _MOST_CHANNELS = "npu_recurrent_gated_delta_rule", 16, 256, 512


def recurrent_gated_delta_rule(
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
) -> Tensor:
    """Return the results; write the state after each token at its index."""
    steps = Recurrence(query, key, value, beta, scale, g, gk)
    start, *lengths = actual_seq_lengths.tolist()
    end = start + sum(max(length, 0) for length in lengths)
    if start < 0 or end > value.size(0) or end > ssm_state_indices.size(0):
        most = min(value.size(0), ssm_state_indices.size(0))
        raise Refusal(f"{_OP}: actual_seq_lengths must lie in the {most} tokens and indices, got {start} to {end}")
    indices = checked_index(_OP, "ssm_state_indices", ssm_state_indices[:end], 0, state.size(0)).tolist()
    out = torch.zeros(value.shape)
    for sequence, length in enumerate(lengths):
        if length <= 0:
            continue
        first = indices[start + _accepted(num_accepted_tokens, sequence, length) - 1]
        current = state[first].float()
        for token in range(start, start + length):
            current, out[token] = steps.next(current, token)
            state[indices[token]] = current.to(state.dtype)
        start += length
    return out.to(value.dtype)


def _accepted(accepted: Tensor | None, sequence: int, length: int) -> int:
    """Return the accepted tokens of a sequence: its state is that of the last one."""
    if length > _MOST_TOKENS:
        raise Refusal(f"{_OP}: actual_seq_lengths[{sequence + 1}] must be at most {_MOST_TOKENS}, got {length}")
    count = 1 if accepted is None else int(accepted[sequence])
    if not 1 <= count <= length:
        raise Refusal(f"{_OP}: num_accepted_tokens[{sequence}] must lie in [1, {length}], got {count}")
    return count


@operator(f"_C_ascend::{_OP}", reference=recurrent_gated_delta_rule)
def rules_of_recurrent_gated_delta_rule(
    rules: Rules,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    state: Tensor,
    beta: Tensor | None,
    scale: float | None,
    actual_seq_lengths: Tensor | None,
    ssm_state_indices: Tensor | None,
    num_accepted_tokens: Tensor | None,
    g: Tensor | None,
    gk: Tensor | None,
) -> Plan:
    """Check a call by the extension's host code and return its plan."""
    for name, rows in (("query", query), ("key", key), ("value", value)):
        rules.dtype(name, rows, (torch.bfloat16,))
        rules.rank(name, rows, 3)
        rules.not_empty(name, rows)
        for dim, most in ((1, _MOST_HEADS), (2, _MOST_CHANNELS)):
            size = rows.size(dim)
            rules.require(size <= most, lambda: f"{name}.size({dim}) must be at most {most}, got {size}")  # noqa: B023
    rules.same_shape("key", key, "query", query)
    rules.equal("value.size(0)", value.size(0), "query.size(0)", query.size(0))
    (tokens, heads, width), keys = value.shape, key.size(1)
    rules.require(heads % keys == 0, lambda: f"value.size(1) must be a multiple of key.size(1), got {heads} and {keys}")
    rules.dtype("state", state, (torch.bfloat16, torch.float32))
    rules.rank("state", state, 4)
    for dim, size in enumerate((heads, width, key.size(2)), 1):
        rules.equal(f"state.size({dim})", state.size(dim), "what query and value say", size)
    if beta is None or scale is None or actual_seq_lengths is None or ssm_state_indices is None:
        rules.refuse("beta, scale, actual_seq_lengths and ssm_state_indices must be given, got None")
    rules.rank("actual_seq_lengths", actual_seq_lengths, 1)
    rules.at_least("actual_seq_lengths.size(0)", actual_seq_lengths.size(0), 1)
    rules.rank("ssm_state_indices", ssm_state_indices, 1)
    sequences = actual_seq_lengths.size(0) - 1
    for name, tensor, dtype, shape in (
        ("beta", beta, torch.bfloat16, (tokens, heads)),
        ("g", g, torch.float32, (tokens, heads)),
        ("gk", gk, torch.float32, (tokens, heads, key.size(2))),
        ("actual_seq_lengths", actual_seq_lengths, torch.int32, (sequences + 1,)),
        ("ssm_state_indices", ssm_state_indices, torch.int32, tuple(ssm_state_indices.shape)),
        ("num_accepted_tokens", num_accepted_tokens, torch.int32, (sequences,)),
    ):
        if tensor is not None:
            rules.dtype(name, tensor, (dtype,))
            rules.shape(name, tensor, shape)
    return Plan((Result(tuple(value.shape), value.dtype),))
