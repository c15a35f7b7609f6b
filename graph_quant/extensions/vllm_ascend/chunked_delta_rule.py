"""chunk_gated_delta_rule_fwd_h and chunk_fwd_o: the gated delta rule of prompts, 64 tokens at a time.

Tensors are (batches, heads, tokens, channels); a head of keys serves as many of values as there are to one. g holds the
sums of the gates' logarithms inside each chunk. For a chunk with the state h, rounded to the keys' dtype,

* ``v_new = u - w @ h``, and the next state is ``exp(g[-1]) * h + k.T @ (v_new * exp(g[-1] - g))``;
* ``o = scale * (A @ v_new + exp(g) * (q @ h))`` with ``A = q @ k.T * exp(min(g_i - g_j, 0))`` for tokens up to each.

Products are summed in float32. The decayed v_new, A and all results are rounded; the last state has the dtype of the
first. Sequences are the batches, or lie between ``cu_seqlens`` in the only batch, with the chunks of ``chunk_indices``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import torch
from graph_quant.meta import Plan, Result, Rules, operator
from graph_quant.meta.attention.sparse_rules import HALVES
from graph_quant.meta.rules import Size
from torch import Tensor

_CHUNK = 64


def _chunks(batches: int, tokens: int, cu_seqlens: Sequence[int] | None) -> Iterator[tuple[int, int, int, slice, bool]]:
    """Yield (sequence, batch, index of the chunk, tokens, whether it is the last) in order."""
    spans = list(pairwise(cu_seqlens)) if cu_seqlens is not None else [(0, tokens)] * batches
    index = 0
    for sequence, (start, end) in enumerate(spans):
        batch = 0 if cu_seqlens is not None else sequence
        index = index if cu_seqlens is not None else 0
        for first in range(start, end, _CHUNK):
            last = first + _CHUNK >= end
            yield sequence, batch, index, slice(first, min(first + _CHUNK, end)), last
            index += 1


def _heads_of(tensor: Tensor, heads: int) -> Tensor:
    """The keys or queries of each head of values."""
    return tensor.repeat_interleave(heads // tensor.size(1), 1)


def chunk_gated_delta_rule_fwd_h(
    k: Tensor,
    w: Tensor,
    u: Tensor,
    g: Tensor,
    initial_state: Tensor | None,
    cu_seqlens: Sequence[int] | None,
    plan: Plan,
) -> tuple[Tensor | None, ...]:
    """``(states before each chunk, v_new, last states)``."""
    h_result, _, last_result = plan.results
    assert isinstance(h_result, Result)
    h, v_new = torch.zeros(h_result.shape, dtype=k.dtype), torch.zeros_like(u)
    last = torch.zeros(last_result.shape, dtype=last_result.dtype) if isinstance(last_result, Result) else None
    keys, gates = _heads_of(k, u.size(1)).float(), g.float()
    state = torch.zeros(0)
    for sequence, batch, index, tokens, is_last in _chunks(k.size(0), k.size(2), cu_seqlens):
        if index == 0 or tokens.start == (cu_seqlens[sequence] if cu_seqlens is not None else 0):
            first = (
                torch.zeros(h.shape[3:]).expand(u.size(1), -1, -1) if initial_state is None else initial_state[sequence]
            )
            state = first.float()
        rounded = state.to(k.dtype)
        h[batch, :, index] = rounded
        gate = gates[batch, :, tokens]
        values = u[batch, :, tokens].float() - w[batch, :, tokens].float() @ rounded.float()
        v_new[batch, :, tokens] = values.to(u.dtype)
        decayed = (values * (gate[:, -1:] - gate).exp().unsqueeze(-1)).to(u.dtype).float()
        update = keys[batch, :, tokens].transpose(1, 2) @ decayed
        state = rounded.float() * gate[:, -1].exp()[:, None, None] + update
        if is_last and last is not None:
            last[sequence] = state.to(last.dtype)
    return h, v_new, last


def _check_sequences(
    rules: Rules,
    k: Tensor,
    chunk_size: int | None,
    cu_seqlens: Sequence[int] | None,
    chunk_indices: Sequence[int] | None,
) -> Size:
    """Check the lengths; return the number of chunks."""
    rules.require(chunk_size in (None, _CHUNK), lambda: f"chunk_size must be {_CHUNK}, got {chunk_size}")
    if cu_seqlens is None:
        rules.require(chunk_indices is None, lambda: "chunk_indices must be None without cu_seqlens, got a list")
        return (k.size(2) + _CHUNK - 1) // _CHUNK
    rules.equal("k.size(0)", k.size(0), "1 with cu_seqlens", 1)
    starts = list(cu_seqlens)
    ascending = len(starts) > 1 and starts[0] == 0 and all(start < end for start, end in pairwise(starts))
    rules.require(ascending, lambda: f"cu_seqlens must rise from 0, got {starts}")
    rules.equal("cu_seqlens[-1]", starts[-1], "k.size(2)", k.size(2))
    counts = [(end - start + _CHUNK - 1) // _CHUNK for start, end in pairwise(starts)]
    chunks = [number for sequence, count in enumerate(counts) for index in range(count) for number in (sequence, index)]
    rules.require(
        chunk_indices is not None and list(chunk_indices) == chunks,
        lambda: f"chunk_indices must be the chunks of cu_seqlens, {chunks}, got {chunk_indices}",
    )
    return sum(counts)


def _check_keys(rules: Rules, k: Tensor, values: Tensor, name: str) -> None:
    rules.dtype("k", k, HALVES)
    rules.rank("k", k, 4)
    rules.not_empty("k", k)
    rules.dtype(name, values, (k.dtype,), ", the dtype of k")
    rules.rank(name, values, 4)
    for dim in (0, 2):
        rules.equal(f"{name}.size({dim})", values.size(dim), f"k.size({dim})", k.size(dim))
    heads, keys = values.size(1), k.size(1)
    rules.require(heads % keys == 0, lambda: f"{name}.size(1) must be a multiple of k.size(1), got {heads} and {keys}")


def _check_gates(rules: Rules, g: Tensor | None, k: Tensor, values: Tensor) -> None:
    if g is None:
        rules.refuse("g must be given, got None")
    rules.dtype("g", g, (torch.float32, k.dtype))
    rules.shape("g", g, values.shape[:3])


@operator("_C_ascend::chunk_gated_delta_rule_fwd_h", reference=chunk_gated_delta_rule_fwd_h)
def rules_of_chunk_gated_delta_rule_fwd_h(
    rules: Rules,
    k: Tensor,
    w: Tensor,
    u: Tensor,
    g: Tensor | None,
    gk: Tensor | None,
    initial_state: Tensor | None,
    output_final_state: bool | None,
    chunk_size: int | None,
    save_new_value: bool | None,
    cu_seqlens: Sequence[int] | None,
    chunk_indices: Sequence[int] | None,
    use_exp2: bool | None,
    transpose_state_layout: bool | None,
) -> Plan:
    """Check a call of the form that the extension's kernel computes; return its plan."""
    rules.require(gk is None, lambda: "gk must be None, because the kernel ignores it, got a tensor")
    rules.require(save_new_value in (None, True), lambda: f"save_new_value must be True, got {save_new_value}")
    for name, flag in (("use_exp2", use_exp2), ("transpose_state_layout", transpose_state_layout)):
        rules.require(not flag, lambda: f"{name} must be False, because the kernel ignores it, got True")  # noqa: B023
    _check_keys(rules, k, u, "u")
    _check_gates(rules, g, k, u)
    rules.dtype("w", w, (k.dtype,), ", the dtype of k")
    rules.shape("w", w, (*u.shape[:3], k.size(3)))
    chunks = _check_sequences(rules, k, chunk_size, cu_seqlens, chunk_indices)
    sequences = k.size(0) if cu_seqlens is None else len(cu_seqlens) - 1
    state = (sequences, u.size(1), k.size(3), u.size(3))
    if initial_state is not None:
        rules.dtype("initial_state", initial_state, (k.dtype, torch.float32))
        rules.shape("initial_state", initial_state, state)
    last = Result(state, k.dtype if initial_state is None else initial_state.dtype) if output_final_state else None
    h = Result((k.size(0), u.size(1), chunks, k.size(3), u.size(3)), k.dtype)
    return Plan((h, Result(tuple(u.shape), u.dtype), last))


def chunk_fwd_o(
    q: Tensor, k: Tensor, v: Tensor, h: Tensor, scale: float, g: Tensor, cu_seqlens: Sequence[int] | None
) -> Tensor:
    """The results of all tokens."""
    out = torch.zeros_like(v)
    queries, keys, gates = _heads_of(q, v.size(1)).float(), _heads_of(k, v.size(1)).float(), g.float()
    for _, batch, index, tokens, _ in _chunks(k.size(0), k.size(2), cu_seqlens):
        query, gate = queries[batch, :, tokens], gates[batch, :, tokens]
        decay = (gate.unsqueeze(-1) - gate.unsqueeze(-2)).clamp(max=0).exp().tril()
        scores = (query @ keys[batch, :, tokens].transpose(1, 2) * decay).to(v.dtype).float()
        seen = query @ h[batch, :, index].float() * gate.exp().unsqueeze(-1)
        out[batch, :, tokens] = ((scores @ v[batch, :, tokens].float() + seen) * scale).to(v.dtype)
    return out


@operator("_C_ascend::chunk_fwd_o", reference=chunk_fwd_o)
def rules_of_chunk_fwd_o(
    rules: Rules,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    h: Tensor,
    scale: float,  # noqa: ARG001
    g: Tensor | None,
    g_gamma: Tensor | None,
    cu_seqlens: Sequence[int] | None,
    chunk_indices: Sequence[int] | None,
    chunk_size: int | None,
    transpose_state_layout: bool | None,
) -> Plan:
    """Check a call of the form that the extension's kernel computes; return its plan."""
    rules.require(g_gamma is None, lambda: "g_gamma must be None, because the kernel ignores it, got a tensor")
    rules.require(
        not transpose_state_layout,
        lambda: "transpose_state_layout must be False, because the kernel ignores it, got True",
    )
    _check_keys(rules, k, v, "v")
    rules.like("q", q, "k", k)
    _check_gates(rules, g, k, v)
    chunks = _check_sequences(rules, k, chunk_size, cu_seqlens, chunk_indices)
    rules.dtype("h", h, (k.dtype,), ", the dtype of k")
    rules.shape("h", h, (k.size(0), v.size(1), chunks, k.size(3), v.size(3)))
    return Plan((Result(tuple(v.shape), v.dtype),))
