"""npu_ring_mla: attention of queries and keys with rope parts, merged with the result over earlier keys.

Both are weighted by their log-sum-exp: ``lse = log(exp(lse) + exp(previous lse))``, in float32.
"""

from __future__ import annotations

from typing import Any

import torch
from graph_quant.refusals import Refusal
from torch import Tensor

from .arithmetic import Arithmetic
from .atb import checked_lengths
from .atb_pages import check_triangle
from .sequence_attention import CachedTokens, DenseTokens, ScoreMod, attend

OP = "npu_ring_mla"


def _sequence_lengths(seqlen: Tensor, queries: int, keys: int) -> list[tuple[int, int]]:
    both = seqlen if seqlen.dim() == 2 else seqlen.expand(2, -1)
    checked = checked_lengths(OP, "seqlen[0]", both[0], queries), checked_lengths(OP, "seqlen[1]", both[1], keys)
    for row, (lengths, tokens) in enumerate(zip(checked, (queries, keys), strict=True)):
        if sum(lengths) > tokens:
            raise Refusal(f"{OP}: the sum of seqlen[{row}] must not exceed {tokens}, got {sum(lengths)}")
    return list(zip(*checked, strict=True))


def _merge_partial(out: Tensor, lse: Tensor, before: Tensor, lse_before: Tensor) -> tuple[Tensor, Tensor]:
    """The merged result (head, token, channel) of two sets of keys."""
    merged_lse = torch.logaddexp(lse, lse_before)
    weights = [(part_lse - merged_lse).exp_().unsqueeze(-1) for part_lse in (lse, lse_before)]
    return out * weights[0] + before * weights[1], merged_lse


def write_results(
    q_nope: Tensor,
    q_rope: Tensor,
    k_nope: Tensor,
    k_rope: Tensor,
    value: Tensor,
    mask: Tensor,
    seqlen: Tensor,
    pre_out: Tensor | None,
    prev_lse: Tensor | None,
    qk_scale: float,
    is_causal: bool,
    output: Tensor,
    softmax_lse: Tensor,
    **_: Any,
) -> tuple[Tensor, Tensor]:
    """Writes both results; those of a sequence without queries or keys stay unchanged."""
    if is_causal:
        check_triangle(OP, mask)
    query, key = (torch.cat(parts, -1).transpose(0, 1) for parts in ((q_nope, q_rope), (k_nope, k_rope)))
    values, starts = value.transpose(0, 1), [0, 0]
    for queries, keys in _sequence_lengths(seqlen, query.size(1), key.size(1)):
        rows, columns = (slice(at, at + count) for at, count in zip(starts, (queries, keys), strict=True))
        starts = [rows.stop, columns.stop]
        if not queries or not keys:
            continue
        hidden = torch.ones(1, queries, keys, dtype=torch.bool).triu(1) if is_causal else None
        cached = (
            CachedTokens([DenseTokens(key[:, columns])]),
            CachedTokens([DenseTokens(values[:, columns])]),
        )
        result, lse = attend(query[:, rows], *cached, ScoreMod(hidden=hidden), Arithmetic(qk_scale, value.dtype))
        if pre_out is not None and prev_lse is not None:
            result, lse = _merge_partial(result, lse, pre_out[rows].transpose(0, 1).float(), prev_lse[:, rows])
        output[rows], softmax_lse[:, rows] = result.transpose(0, 1).to(output.dtype), lse
    return output, softmax_lse


def compute(
    q_nope: Tensor, k_nope: Tensor, value: Tensor, seqlen: Tensor, is_causal: bool, **arguments: Any
) -> tuple[Tensor, Tensor]:
    """Both results. Sequences without keys are refused: the kernel leaves their results uninitialised."""
    for sequence, (queries, keys) in enumerate(_sequence_lengths(seqlen, q_nope.size(0), k_nope.size(0))):
        if queries and not keys:
            raise Refusal(
                f"{OP}: sequence {sequence} must have keys, or output and softmax_lse given, got {queries} and 0"
            )
    tokens, heads, _ = q_nope.shape
    out, lse = q_nope.new_zeros(tokens, heads, value.size(2)), torch.zeros(heads, tokens)
    arguments |= {"q_nope": q_nope, "k_nope": k_nope, "value": value, "seqlen": seqlen, "is_causal": is_causal}
    return write_results(**arguments, output=out, softmax_lse=lse)
