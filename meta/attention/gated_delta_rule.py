"""npu_recurrent_gated_delta_rule, its functional form and npu_chunk_gated_delta_rule: rules.

query and key are (tokens, heads of keys, channels of keys), value is (tokens, heads, channels); a head of keys serves
as many of values as there are to one. A state is (heads, channels of values, channels of keys): of each token for the
recurrent form, of each sequence for the chunk form. beta and g have one for each token and head, gk one for each
channel of keys as well.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import Rules, Size
from graph_quant.reference.attention import gated_delta_rule as reference
from torch import Tensor

# The most heads, and the most channels of each.
RECURRENT, CHUNK = (256, 512), (64, 128)


def _check_most(rules: Rules, name: str, size: Size, most: int) -> None:
    rules.require(size <= most, lambda: f"{name} must be at most {most}, got {size}")


def _check_rows(rules: Rules, query: Tensor, key: Tensor, value: Tensor, most: tuple[int, int]) -> None:
    for name, rows in (("query", query), ("key", key), ("value", value)):
        rules.dtype(name, rows, (torch.bfloat16,))
        rules.rank(name, rows, 3)
        rules.not_empty(name, rows)
        for dim, limit in enumerate(most, 1):
            _check_most(rules, f"{name}.size({dim})", rows.size(dim), limit)
    for dim in range(3):
        rules.equal(f"key.size({dim})", key.size(dim), f"query.size({dim})", query.size(dim))
    rules.equal("value.size(0)", value.size(0), "query.size(0)", query.size(0))
    heads, keys = value.size(1), key.size(1)
    rules.require(heads % keys == 0, lambda: f"value.size(1) must be a multiple of key.size(1), got {heads} and {keys}")


def _check_shapes(rules: Rules, tensors: Mapping[str, tuple[Tensor | None, torch.dtype, tuple[Size, ...]]]) -> None:
    """Every tensor that is given has a dtype and sizes."""
    for name, (tensor, dtype, shape) in tensors.items():
        if tensor is not None:
            rules.dtype(name, tensor, (dtype,))
            rules.rank(name, tensor, len(shape))
            for dim, size in enumerate(shape):
                rules.equal(f"{name}.size({dim})", tensor.size(dim), "what query and value say", size)


def _require_present(rules: Rules, arguments: Mapping[str, object]) -> None:
    for name, value in arguments.items():
        if value is None:
            rules.refuse(f"{name} must be given, got None")


@operator(
    "npu_recurrent_gated_delta_rule",
    reference=reference.recurrent_gated_delta_rule,
    results=lambda both: both[:1],
)
@operator("npu_recurrent_gated_delta_rule_functional", reference=reference.recurrent_gated_delta_rule_functional)
def recurrent_gated_delta_rule(
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
    """Checks a call against the documented rules, and returns its plan."""
    needed = {"actual_seq_lengths": actual_seq_lengths, "ssm_state_indices": ssm_state_indices}
    _require_present(rules, {"beta": beta, "scale": scale, **needed})
    _check_rows(rules, query, key, value, RECURRENT)
    (tokens, heads, width), channels = value.shape, key.size(2)
    rules.dtype("state", state, (torch.bfloat16,))
    rules.rank("state", state, 4)
    for dim, size in enumerate((heads, width, channels), 1):
        rules.equal(f"state.size({dim})", state.size(dim), "what query and value say", size)
    rules.require(
        state.size(0) >= tokens, lambda: f"state.size(0) must be at least {tokens}, the tokens, got {state.size(0)}"
    )
    assert actual_seq_lengths is not None
    rules.rank("actual_seq_lengths", actual_seq_lengths, 1)
    batches = actual_seq_lengths.size(0)
    _check_shapes(
        rules,
        {
            "beta": (beta, torch.bfloat16, (tokens, heads)),
            "g": (g, torch.float32, (tokens, heads)),
            "gk": (gk, torch.float32, (tokens, heads, channels)),
            "actual_seq_lengths": (actual_seq_lengths, torch.int32, (batches,)),
            "ssm_state_indices": (ssm_state_indices, torch.int32, (tokens,)),
            "num_accepted_tokens": (num_accepted_tokens, torch.int32, (batches,)),
        },
    )
    return Plan((Result(tuple(value.shape), value.dtype), Result(tuple(state.shape), state.dtype)))


@operator("npu_chunk_gated_delta_rule", reference=reference.chunk_gated_delta_rule)
def chunk_gated_delta_rule(
    rules: Rules,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    beta: Tensor | None,
    initial_state: Tensor | None,
    actual_seq_lengths: Tensor | None,
    scale: float | None,
    g: Tensor | None,
) -> Plan:
    """The same for prompts."""
    needed = {"initial_state": initial_state, "actual_seq_lengths": actual_seq_lengths}
    _require_present(rules, {"beta": beta, "scale": scale, **needed})
    assert initial_state is not None
    assert actual_seq_lengths is not None
    _check_rows(rules, query, key, value, CHUNK)
    tokens, heads, width = value.shape
    rules.rank("actual_seq_lengths", actual_seq_lengths, 1)
    batches = actual_seq_lengths.size(0)
    _check_shapes(
        rules,
        {
            "beta": (beta, torch.bfloat16, (tokens, heads)),
            "g": (g, torch.float32, (tokens, heads)),
            "actual_seq_lengths": (actual_seq_lengths, torch.int32, (batches,)),
            "initial_state": (initial_state, torch.bfloat16, (batches, heads, width, key.size(2))),
        },
    )
    return Plan((Result(tuple(value.shape), value.dtype), Result(tuple(initial_state.shape), initial_state.dtype)))
