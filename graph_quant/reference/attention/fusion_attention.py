"""npu_fusion_attention and its gradient: softmax(scale * (q k + pse), masked) v, without dropout.

A sink is a score a head that takes weight and gives nothing; the sum of exponentials is with it.
Beyond the sparse modes of inference (``masks``), mode 5 is a mask that says all, 6 shows the first keys, as many as
prefix says, beside those up to the diagonal from the lower right corner, 7 is mode 4 for the last sequence and 3 for
the others, 8 is mode 4 for the first and 2 for the others. Without a mask no mode hides anything.

Scores, weights and their sum are float32; weights are rounded to query's dtype for the product with value, and so are
the gradients of scores for theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from . import masks, spans
from .core import HIDDEN
from .layouts import arranged, heads_first
from .spans import Span

# The kernels keep a row's maximum and sum eight times, for the sake of alignment.
COPIES = 8
_ROW_FIX = 2
PREFIX_TABLE, BAND_LAST, BAND_FIRST = 6, 7, 8
TABLES = (2, 3, 4, PREFIX_TABLE)


@dataclass(frozen=True)
class Training:
    """The numbers of a call, and its mask and shift."""

    op: str
    head_num: int
    input_layout: str
    scale: float
    pre_tockens: int
    next_tockens: int
    inner_precise: int
    sparse_mode: int
    pse: Tensor | None = None
    atten_mask: Tensor | None = None
    actual_seq_qlen: Sequence[int] | None = None
    actual_seq_kvlen: Sequence[int] | None = None
    sink: Tensor | None = None
    prefix: Sequence[int] | None = None

    def heads_first(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The three as (batch, head, token, channel)."""
        first = heads_first(query, self.input_layout, self.head_num)
        kv_heads = key.size(-1) // first.size(-1) if len(self.input_layout) == 3 and "H" in self.input_layout else 1
        keys, values = (heads_first(each, self.input_layout, kv_heads) for each in (key, value))
        return first, keys, values

    def sequences(self, query: Tensor, key: Tensor) -> list[tuple[Span, Span]]:
        """The tokens of query and of key of each sequence."""
        if self.input_layout != "TND":
            return [(Span(b, 0, query.size(2)), Span(b, 0, key.size(2))) for b in range(query.size(0))]
        used = self._used()
        queries = spans.packed(self.op, "actual_seq_qlen", (self.actual_seq_qlen or ())[:used], query.size(2))
        keys = spans.packed(self.op, "actual_seq_kvlen", (self.actual_seq_kvlen or ())[:used], key.size(2))
        return list(zip(queries, keys, strict=True))

    def _used(self) -> int:
        """How many sequences of layout TND there are: ends of 0 after others are of none."""
        ends = self.actual_seq_qlen or ()
        return max((place + 1 for place, end in enumerate(ends) if end), default=0)

    def _mode(self, sequence: int) -> int:
        """The sparse mode of one sequence."""
        if self.atten_mask is None:
            return 0
        if self.sparse_mode == BAND_LAST:
            return 4 if sequence == self._used() - 1 else 3
        if self.sparse_mode == BAND_FIRST:
            return 4 if sequence == 0 else 2
        return self.sparse_mode

    def scores(self, query: Tensor, key: Tensor, sequence: int) -> tuple[Tensor, Tensor | None]:
        """The scores of one sequence (head, query, key), and which queries give nothing, (head or 1, query)."""
        products = query.float() @ _widened(key, query.size(0)).float().mT
        if self.pse is not None:
            products += self.pse[sequence if self.pse.size(0) > 1 else 0].float()
        scores = products.mul_(self.scale)
        by_place, by_mask = self._hidden(sequence, query.size(1), key.size(1))
        hidden = by_place if by_mask is None else by_mask if by_place is None else by_mask | by_place
        if hidden is None:
            return scores, None
        scores.masked_fill_(hidden, HIDDEN)
        void = hidden if self.inner_precise & _ROW_FIX else by_place
        return scores, None if void is None else void.all(-1)

    def _hidden(self, sequence: int, queries: int, keys: int) -> tuple[Tensor | None, Tensor | None]:
        mask, mode = self.atten_mask, self._mode(sequence)
        if mask is None:
            return None, None
        if mode in TABLES:
            masks.check_table(self.op, mask, mask.size(-2))
            return self._by_table(mode, sequence, queries, keys), None
        by_place = masks.Mask(mode, mask, self.pre_tockens, self.next_tockens).by_place(queries, keys)
        rows = mask if mask.dim() == 4 else mask[None, None]
        by_mask = rows[sequence if rows.size(0) > 1 else 0][:, :queries, :keys].bool()
        return None if by_place is None else by_place[None], by_mask

    def _by_table(self, mode: int, sequence: int, queries: int, keys: int) -> Tensor | None:
        reach = masks.Mask(3 if mode == PREFIX_TABLE else mode, None, self.pre_tockens, self.next_tockens)
        by_place = reach.by_place(queries, keys)
        if by_place is None:
            return None
        if mode == PREFIX_TABLE and self.prefix is not None:
            by_place = by_place & (torch.arange(keys) >= self.prefix[sequence])
        return by_place[None]


def _widened(x: Tensor, heads: int) -> Tensor:
    return x.repeat_interleave(heads // x.size(0), 0)


def _narrowed(x: Tensor, heads: int) -> Tensor:
    return x.unflatten(0, (heads, -1)).sum(1)


def _at(x: Tensor, span: Span) -> Tensor:
    return x[span.batch, :, span.start : span.stop]


def _rounded(x: Tensor, dtype: torch.dtype) -> Tensor:
    return x.to(dtype).float()


def forward(call: Training, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The result in its layout, and of each row the largest score and the sum of exponentials."""
    q, k, v = call.heads_first(query, key, value)
    out = torch.zeros(*q.shape[:3], v.size(3))
    largest, total = torch.zeros(q.shape[:3]), torch.zeros(q.shape[:3])
    for sequence, (queries, keys) in enumerate(call.sequences(q, k)):
        scores, void = call.scores(_at(q, queries), _at(k, keys), sequence)
        if not scores.numel():
            continue
        row_largest = scores.amax(-1, keepdim=True)
        if call.sink is not None:
            row_largest = row_largest.maximum(call.sink[:, None, None])
        weights = scores.sub_(row_largest).exp_()
        row_total = weights.sum(-1, keepdim=True)
        if call.sink is not None:
            row_total += (call.sink[:, None, None] - row_largest).exp_()
        sums = _rounded(weights, query.dtype) @ _widened(_at(v, keys), q.size(1)).float()
        result = sums.div_(row_total)
        if void is not None:
            result.masked_fill_(void.unsqueeze(-1), 0.0)
        place = (queries.batch, slice(None), slice(queries.start, queries.stop))
        out[place], largest[place], total[place] = result, row_largest.squeeze(-1), row_total.squeeze(-1)
    return arranged(out.to(query.dtype), call.input_layout), _kept(largest, call), _kept(total, call)


def _kept(x: Tensor, call: Training) -> Tensor:
    rows = x.squeeze(0).transpose(0, 1) if call.input_layout == "TND" else x
    return rows.unsqueeze(-1).repeat_interleave(COPIES, -1)


def backward(
    call: Training,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    dy: Tensor,
    softmax_max: Tensor,
    softmax_sum: Tensor,
    attention_in: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The gradients of query, key, value, pse and sink, the last two empty without one."""
    q, k, v = call.heads_first(query, key, value)
    gradient, result = (heads_first(each, call.input_layout, call.head_num).float() for each in (dy, attention_in))
    largest, total = (_rows(each, call) for each in (softmax_max, softmax_sum))
    gradients = torch.zeros(q.shape), torch.zeros(k.shape), torch.zeros(v.shape)
    of_shift = torch.zeros(0 if call.pse is None else call.pse.shape)
    of_sink = torch.zeros(0 if call.sink is None else call.head_num)
    for sequence, (queries, keys) in enumerate(call.sequences(q, k)):
        scores, void = call.scores(_at(q, queries), _at(k, keys), sequence)
        weights = scores.sub_(_at(largest, queries).unsqueeze(-1)).exp_().div_(_at(total, queries).unsqueeze(-1))
        if void is not None:
            weights.masked_fill_(void.unsqueeze(-1), 0.0)
        upstream = _at(gradient, queries)
        of_weights = upstream @ _widened(_at(v, keys), q.size(1)).float().mT
        row = (upstream * _at(result, queries)).sum(-1, keepdim=True)
        exact = weights * (of_weights - row)
        if call.sink is not None:
            taken = (call.sink[:, None] - _at(largest, queries)).exp_().div_(_at(total, queries))
            of_sink -= (taken * row.squeeze(-1)).sum(-1)
        if call.pse is not None:
            of_shift[sequence if call.pse.size(0) > 1 else 0] += (exact * call.scale).sum_to_size(call.pse.shape[1:])
        of_scores = _rounded(exact, query.dtype)
        _at(gradients[0], queries).copy_(of_scores @ _widened(_at(k, keys), q.size(1)).float() * call.scale)
        of_keys = of_scores.mT @ _at(q, queries).float() * call.scale
        _at(gradients[1], keys).copy_(_narrowed(of_keys, k.size(1)))
        of_values = _rounded(weights, query.dtype).mT @ upstream
        _at(gradients[2], keys).copy_(_narrowed(of_values, k.size(1)))
    dq, dk, dv = (arranged(each.to(query.dtype), call.input_layout).contiguous() for each in gradients)
    return dq, dk, dv, of_shift.to(query.dtype), of_sink


def _rows(x: Tensor, call: Training) -> Tensor:
    """What ``_kept`` was given."""
    rows = x[..., 0]
    return rows.transpose(0, 1).unsqueeze(0) if call.input_layout == "TND" else rows
