"""npu_ring_attention_update: merges attention over two parts of the keys, each given by result, maximum and sum.

``max = maximum(prev_max, cur_max)``, ``sum = prev_sum * exp(prev_max - max) + cur_sum * exp(cur_max - max)``; each
result is weighted by its term of the sum. Float32, in the kernel's order of steps, rounded once.
"""

from __future__ import annotations

import torch
from graph_quant.reference.checks import value_check
from graph_quant.refusals import Refusal
from torch import Tensor

OP = "npu_ring_attention_update"
TIMES = 8


@value_check
def check_repeated(name: str, softmax: Tensor) -> Tensor:
    """Statistics that are stored eight times each, refused where the eight differ."""
    if bool((softmax != softmax[..., :1]).any()):
        raise Refusal(f"{OP}: the last dimension of {name} must hold one number {TIMES} times, got others")
    return softmax


@value_check
def check_bounds(ends: Tensor, tokens: int) -> Tensor:
    """The bounds of sequences, refused unless they rise from 0 to the number of tokens."""
    values: list[int] = ends.tolist()
    if values != sorted(values) or values[0] != 0 or values[-1] != tokens:
        raise Refusal(f"{OP}: actual_seq_qlen must rise from 0 to {tokens}, the tokens, got {values}")
    return ends


def _by_token(softmax: Tensor, ends: Tensor) -> Tensor:
    """(T, heads) from statistics stored head by head within each sequence."""
    heads = softmax.size(1)
    flat = softmax.reshape(-1)
    parts = [
        flat[first * heads : last * heads].reshape(heads, last - first).t()
        for first, last in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)
    ]
    return torch.cat(parts)


def ring_attention_update(
    prev_attn_out: Tensor,
    prev_softmax_max: Tensor,
    prev_softmax_sum: Tensor,
    cur_attn_out: Tensor,
    cur_softmax_max: Tensor,
    cur_softmax_sum: Tensor,
    actual_seq_qlen: Tensor | None,
    input_layout: str,
    input_softmax_layout: str,
) -> tuple[Tensor, Tensor, Tensor]:
    """``(attn_out, softmax_max, softmax_sum)``."""
    before = check_repeated("prev_softmax_max", prev_softmax_max)[..., 0]
    now = check_repeated("cur_softmax_max", cur_softmax_max)[..., 0]
    largest = torch.maximum(before, now)
    first = check_repeated("prev_softmax_sum", prev_softmax_sum)[..., 0] * (before - largest).exp()
    second = check_repeated("cur_softmax_sum", cur_softmax_sum)[..., 0] * (now - largest).exp()
    total = first + second
    weights = first / total, second / total
    if input_layout == "SBH":
        weights = weights[0].permute(2, 0, 1), weights[1].permute(2, 0, 1)
    elif input_softmax_layout != "TND":
        assert actual_seq_qlen is not None
        ends = check_bounds(actual_seq_qlen, prev_attn_out.size(0))
        weights = _by_token(weights[0], ends), _by_token(weights[1], ends)
    parts = [tensor.float().reshape(*weights[0].shape, -1) for tensor in (prev_attn_out, cur_attn_out)]
    joined = parts[0] * weights[0].unsqueeze(-1) + parts[1] * weights[1].unsqueeze(-1)
    return (
        joined.reshape(prev_attn_out.shape).to(prev_attn_out.dtype),
        largest.unsqueeze(-1).repeat_interleave(TIMES, -1),
        total.unsqueeze(-1).repeat_interleave(TIMES, -1),
    )
