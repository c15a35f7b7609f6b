"""npu_fusion_attention and its gradient: ``softmax(mask(scale * (q @ k.T + pse))) @ v`` with dropout of weights.

A sink is a score per head that takes weight and has no value; the sum of exponentials includes it. Scores, weights and
their sum are float32; weights are rounded to query's dtype for the matmul with value, and so are the gradients of
scores for their matmuls.
"""

from __future__ import annotations

import torch
from graph_quant import native
from graph_quant.chip import is_950
from torch import Tensor

from .layouts import empty_in_layout, from_bnsd, to_bnsd
from .pse_shift import Pairs
from .sequence_attention import exponentials_
from .token_spans import TokenSpan
from .training_call import COPIES, TrainingCall, repeat_kv


def _sum_kv_groups(x: Tensor, heads: int) -> Tensor:
    return x.unflatten(0, (heads, -1)).sum(1)


def _take(x: Tensor, span: TokenSpan) -> Tensor:
    of_batch = x.select(0, span.batch)
    return of_batch if span.length == x.size(2) else of_batch[:, span.start : span.stop]


def _round_to(x: Tensor, dtype: torch.dtype) -> Tensor:
    return x.to(dtype).float()


def forward(call: TrainingCall, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The result in its layout, and the largest score and the sum of exponentials of each row."""
    q, k, v = call.to_bnsd(query, key, value)
    pairs = call.sequences(q, k)
    if is_950():
        call.check_rows_950(pairs)
    bits = call.kept_weights(pairs)
    if bits is None and call.is_plain and native.can_attend(q, k, v):
        return _native_forward(call, q, k, v, pairs)
    out = torch.zeros(*q.shape[:3], v.size(3), dtype=query.dtype)
    largest, total = torch.zeros(q.shape[:3]), torch.zeros(q.shape[:3])
    for sequence, (queries, keys) in enumerate(pairs):
        if queries.length and keys.length:
            index = (queries.batch, slice(None), slice(queries.start, queries.stop))
            out[index], largest[index], total[index] = _sequence_forward(call, q, k, v, pairs, sequence, bits)
    return from_bnsd(out, call.input_layout), call.kept(largest, pairs), call.kept(total, pairs)


def _native_forward(call: TrainingCall, q: Tensor, k: Tensor, v: Tensor, pairs: Pairs) -> tuple[Tensor, Tensor, Tensor]:
    """As ``forward``, by the compiled loop, for calls without pse, sink and dropout."""
    batch, heads, tokens, _ = q.shape
    out = empty_in_layout(call.input_layout, batch, heads, tokens, v.size(3), q.dtype)
    largest, total = (torch.empty(batch, heads, tokens, 1 if call.is_packed else COPIES) for _ in range(2))
    if call.is_packed:  # tokens outside of all sequences, and of sequences without keys
        for tensor in (out, largest, total):
            tensor.zero_()
    for sequence, (queries, keys) in enumerate(pairs):
        if queries.length and keys.length:
            operands = _take(q, queries), _take(k, keys), _take(v, keys)
            results = [_take(tensor, queries) for tensor in (out, largest, total)]
            native.attend(*operands, call.scale, call.native_mask(pairs, sequence), *results)
    if call.is_packed:
        largest, total = (call.kept(tensor.squeeze(-1), pairs) for tensor in (largest, total))
    return from_bnsd(out, call.input_layout), largest, total


def _sequence_forward(
    call: TrainingCall, q: Tensor, k: Tensor, v: Tensor, pairs: Pairs, sequence: int, bits: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """The result (head, query, channel) of one sequence, and the largest score and the sum of each row."""
    queries, keys = pairs[sequence]
    scores, void = call.scores(_take(q, queries), _take(k, keys), pairs, sequence)
    largest = scores.amax(-1, keepdim=True)
    if call.sink is not None:
        largest = largest.maximum(call.sink[:, None, None])
    weights = exponentials_(scores.sub_(largest))
    total = weights.sum(-1, keepdim=True)
    if call.sink is not None:
        total += (call.sink[:, None, None] - largest).exp_()
    kept = _round_to(call.dropped(weights, bits, pairs, sequence), q.dtype)
    result = (kept @ repeat_kv(_take(v, keys), q.size(1)).float()).div_(total)
    if void is not None:
        result.masked_fill_(void.unsqueeze(-1), 0.0)
    return result, largest.squeeze(-1), total.squeeze(-1)


def backward(
    call: TrainingCall,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    dy: Tensor,
    softmax_max: Tensor,
    softmax_sum: Tensor,
    attention_in: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The gradients of query, key, value, pse and sink; the last two are empty where the argument is None."""
    q, k, v = call.to_bnsd(query, key, value)
    gradient, result = (to_bnsd(tensor, call.input_layout, call.head_num).float() for tensor in (dy, attention_in))
    pairs = call.sequences(q, k)
    bits = call.kept_weights(pairs)
    largest, total = (call.rows(tensor, pairs) for tensor in (softmax_max, softmax_sum))
    gradients = torch.zeros(q.shape), torch.zeros(k.shape), torch.zeros(v.shape)
    of_shift = torch.zeros(0 if call.pse is None else call.pse.shape)
    of_sink = torch.zeros(0 if call.sink is None else call.head_num)
    for sequence, (queries, keys) in enumerate(pairs):
        if not queries.length or not keys.length:
            continue
        scores, void = call.scores(_take(q, queries), _take(k, keys), pairs, sequence)
        weights = exponentials_(scores.sub_(_take(largest, queries).unsqueeze(-1)))
        weights.div_(_take(total, queries).unsqueeze(-1))
        if void is not None:
            weights.masked_fill_(void.unsqueeze(-1), 0.0)
        upstream = _take(gradient, queries)
        products = upstream @ repeat_kv(_take(v, keys), q.size(1)).float().mT
        of_weights = call.dropped(products, bits, pairs, sequence)
        row = (upstream * _take(result, queries)).sum(-1, keepdim=True)
        exact = weights * (of_weights - row)
        if call.sink is not None:
            taken = (call.sink[:, None] - _take(largest, queries)).exp_().div_(_take(total, queries))
            of_sink -= (taken * row.squeeze(-1)).sum(-1)
        if call.shift is not None:
            call.shift.gradient(of_shift, exact, call.scale, pairs, sequence)
        of_scores = _round_to(exact, query.dtype)
        _take(gradients[0], queries).copy_(of_scores @ repeat_kv(_take(k, keys), q.size(1)).float() * call.scale)
        of_keys = of_scores.mT @ _take(q, queries).float() * call.scale
        _take(gradients[1], keys).copy_(_sum_kv_groups(of_keys, k.size(1)))
        of_values = _round_to(call.dropped(weights, bits, pairs, sequence), query.dtype).mT @ upstream
        _take(gradients[2], keys).copy_(_sum_kv_groups(of_values, k.size(1)))
    dq, dk, dv = (from_bnsd(tensor.to(query.dtype), call.input_layout).contiguous() for tensor in gradients)
    return dq, dk, dv, of_shift.to(query.dtype if call.pse is None else call.pse.dtype), of_sink
