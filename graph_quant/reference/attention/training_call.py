"""One call of attention for training: its sequences, its mask, and the statistics that are stored.

Beyond the sparse modes of inference (``masks``): in mode 5 the mask contains the prefix; mode 6 shows the first keys,
as many as prefix says, and is causal from the lower right corner for the others; mode 7 is mode 4 for the last sequence
and 3 for the others; mode 8 is mode 4 for the first sequence and 2 for the others. Without a mask no mode hides
anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from graph_quant import native
from graph_quant.reference.rng import dropout_mask_bits, unpack_mask
from graph_quant.refusals import Refusal
from torch import Tensor

from . import masks, token_spans
from .ascend950 import check_rows
from .layouts import to_bnsd
from .pse_shift import Pairs, PseShift, slice_sequence
from .sequence_attention import HIDDEN
from .token_spans import TokenSpan

# The kernels store a row's maximum and sum eight times, for alignment.
COPIES = 8
_ROW_FIX = 2
PREFIX_TABLE, BAND_LAST, BAND_FIRST = 6, 7, 8
TABLES = (2, 3, 4, PREFIX_TABLE)
# Seed and offset of the generator that a dropout mask is sampled from.
RngState = tuple[int, int]


def repeat_kv(x: Tensor, heads: int) -> Tensor:
    """``x`` with the heads of key repeated for each head of query."""
    return x if x.size(0) == heads else x.repeat_interleave(heads // x.size(0), 0)


@dataclass(frozen=True)
class TrainingCall:
    """The attributes of a call, its mask and its shift."""

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
    softmax_layout: str = ""
    pse_type: int = 1
    starts: tuple[int, int] = (0, 0)
    keep_prob: float = 1.0
    dropout_mask: Tensor | None = None
    rng_state: RngState | None = None

    @property
    def is_packed(self) -> bool:
        """Whether sequences are packed."""
        return self.input_layout == "TND"

    @property
    def is_plain(self) -> bool:
        """Whether there is neither pse nor sink."""
        return self.pse is None and self.sink is None

    @cached_property
    def shift(self) -> PseShift | None:
        """The shift of the scores, if any."""
        if self.pse is None:
            return None
        return PseShift(self.pse, self.pse_type, self.is_packed, self.head_num, self.starts)

    def to_bnsd(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The three as (batch, head, token, channel)."""
        first = to_bnsd(query, self.input_layout, self.head_num)
        kv_heads = key.size(-1) // first.size(-1) if len(self.input_layout) == 3 and "H" in self.input_layout else 1
        keys, values = (to_bnsd(tensor, self.input_layout, kv_heads) for tensor in (key, value))
        return first, keys, values

    def sequences(self, query: Tensor, key: Tensor) -> list[tuple[TokenSpan, TokenSpan]]:
        """The spans of query and key of each sequence; zero ends after the last sequence are ignored."""
        if not self.is_packed:
            return [(TokenSpan(b, 0, query.size(2)), TokenSpan(b, 0, key.size(2))) for b in range(query.size(0))]
        ends = self.actual_seq_qlen or ()
        used = max((index + 1 for index, end in enumerate(ends) if end), default=0)
        queries = token_spans.packed_spans(self.op, "actual_seq_qlen", ends[:used], query.size(2))
        keys = token_spans.packed_spans(self.op, "actual_seq_kvlen", (self.actual_seq_kvlen or ())[:used], key.size(2))
        return list(zip(queries, keys, strict=True))

    def _mode(self, pairs: Pairs, sequence: int) -> int:
        """The sparse mode of one sequence."""
        if self.sparse_mode not in (BAND_LAST, BAND_FIRST):
            return self.sparse_mode
        seen = [index for index, (queries, _) in enumerate(pairs) if queries.length]
        if self.sparse_mode == BAND_LAST:
            return 4 if sequence == seen[-1] else 3
        return 4 if sequence == seen[0] else 2

    def scores(self, query: Tensor, key: Tensor, pairs: Pairs, sequence: int) -> tuple[Tensor, Tensor | None]:
        """The scores of one sequence (head, query, key), and the queries with zero results, if any."""
        products = query.float() @ repeat_kv(key, query.size(0)).float().mT
        shift = self.shift
        scores = products.mul_(self.scale) if shift is None else shift.scaled(products, self.scale, pairs, sequence)
        by_position, by_mask = self._hidden(pairs, sequence)
        hidden = by_position if by_mask is None else by_mask if by_position is None else by_mask | by_position
        if hidden is None:
            return scores, None
        scores.masked_fill_(hidden, HIDDEN)
        void = hidden if self.inner_precise & _ROW_FIX else by_position
        if void is None:
            return scores, None
        rows = void.all(-1)
        return scores, rows if rows.any() else None

    def kept_weights(self, pairs: Pairs) -> Tensor | None:
        """The dropout mask of all weights, sequence by sequence, True where kept; None without dropout."""
        if self.dropout_mask is None and self.rng_state is None:
            return None
        count = self.head_num * sum(queries.length * keys.length for queries, keys in pairs)
        if self.dropout_mask is not None:
            return unpack_mask(self.dropout_mask, count)
        assert self.rng_state is not None
        return unpack_mask(dropout_mask_bits(*self.rng_state, count, self.keep_prob), count)

    def dropped(self, weights: Tensor, kept: Tensor | None, pairs: Pairs, sequence: int) -> Tensor:
        """The weights of one sequence after dropout, scaled by ``1 / keep_prob``."""
        if kept is None:
            return weights
        enlarged = weights * torch.tensor(1.0 / self.keep_prob, dtype=torch.float32)
        return enlarged * slice_sequence(kept, pairs, sequence, self.head_num)

    def _hidden(self, pairs: Pairs, sequence: int) -> tuple[Tensor | None, Tensor | None]:
        band, by_mask = self._band_and_mask(pairs, sequence)
        queries, keys = (span.length for span in pairs[sequence])
        by_position = None if band is None else band.by_position(queries, keys)
        if by_position is not None and self.sparse_mode == PREFIX_TABLE and self.prefix is not None:
            by_position = by_position & (torch.arange(keys) >= self.prefix[sequence])
        return None if by_position is None else by_position[None], None if by_mask is None else by_mask.bool()

    def check_rows_950(self, pairs: Pairs) -> None:
        """Refuse sequences in which a query sees no key, which are not described for Ascend 950."""
        for sequence, (queries, keys) in enumerate(pairs):
            if queries.length:
                by_position, by_mask = self._hidden(pairs, sequence)
                hidden = by_position if by_mask is None else by_mask if by_position is None else by_mask | by_position
                check_rows(self.op, hidden, keys.length, sequence)

    def native_mask(self, pairs: Pairs, sequence: int) -> native.HiddenKeys:
        """The mask of one sequence, for the compiled loop."""
        if self.sparse_mode == PREFIX_TABLE:  # its visible keys are no single range
            return native.HiddenKeys(self._hidden(pairs, sequence)[0], gives_zeros=True)
        band, by_mask = self._band_and_mask(pairs, sequence)
        last, first = (None, None) if band is None else band.reach(*(span.length for span in pairs[sequence]))
        return native.HiddenKeys(by_mask, first, last, bool(self.inner_precise & _ROW_FIX))

    def _band_and_mask(self, pairs: Pairs, sequence: int) -> tuple[masks.Mask | None, Tensor | None]:
        """The band of visible positions of one sequence, and its part of the mask, (head or 1, query, key)."""
        mask = self.atten_mask
        if mask is None:
            return None, None
        self._check_prefix(pairs, sequence)
        if self.is_packed:
            self._check_rows(pairs, sequence)
        mode, (queries, keys) = self._mode(pairs, sequence), pairs[sequence]
        if mode in TABLES:
            masks.check_table(self.op, mask, mask.size(-2))
            return masks.Mask(3 if mode == PREFIX_TABLE else mode, None, self.pre_tockens, self.next_tockens), None
        rows = mask if mask.dim() == 4 else mask[None, None]
        part = rows[sequence if rows.size(0) > 1 else 0]
        if self._is_of_all_tokens(mask, pairs):
            part = part[:, queries.start :, keys.start :]
        lengths = queries.length, keys.length
        by_mask = part if part.shape[1:] == lengths else part[:, : lengths[0], : lengths[1]]
        return masks.Mask(mode, mask, self.pre_tockens, self.next_tockens), by_mask

    def _is_of_all_tokens(self, mask: Tensor, pairs: Pairs) -> bool:
        """Whether a mask of packed sequences covers all tokens, and not only the longest sequences."""
        if not self.is_packed:
            return False
        longest = tuple(max(pair[side].length for pair in pairs) for side in (0, 1))
        total = pairs[-1][0].stop, pairs[-1][1].stop
        if tuple(mask.shape) not in (longest, total):
            raise Refusal(
                f"{self.op}: atten_mask must be {longest}, the longest sequences, or {total}, all tokens, in layout "
                f"TND, got {tuple(mask.shape)}"
            )
        return tuple(mask.shape) != longest

    def _check_prefix(self, pairs: Pairs, sequence: int) -> None:
        if self.prefix is None:
            return
        queries, keys = (span.length for span in pairs[sequence])
        least, got = max(keys - queries, 0), self.prefix[sequence]
        if not least <= got <= keys:
            raise Refusal(f"{self.op}: prefix[{sequence}] must lie in [{least}, {keys}], got {got}")

    def _check_rows(self, pairs: Pairs, sequence: int) -> None:
        """The kernel of packed sequences refuses queries whose position hides all keys."""
        queries, keys = (span.length for span in pairs[sequence])
        most = {0: keys + self.pre_tockens, 3: keys, 4: keys + self.next_tockens}.get(self.sparse_mode, queries)
        if queries > most and (keys or self.sparse_mode == 3):
            raise Refusal(
                f"{self.op}: sequence {sequence} must have at most {most} queries for {keys} keys in sparse_mode "
                f"{self.sparse_mode} and layout TND, got {queries}"
            )

    def kept(self, x: Tensor, pairs: Pairs) -> Tensor:
        """Statistics (batch, head, token) as stored: packed sequences head by head, or by token with softmax_layout."""
        if not self.is_packed:
            rows = x
        elif self.softmax_layout:
            rows = x[0].T
        else:
            rows = torch.zeros(x.size(2), x.size(1))
            for queries, _ in pairs:
                rows[queries.start : queries.stop] = x[0, :, queries.start : queries.stop].reshape(
                    queries.length, x.size(1)
                )
        return rows.unsqueeze(-1).expand(*rows.shape, COPIES).contiguous()

    def rows(self, kept: Tensor, pairs: Pairs) -> Tensor:
        """The inverse of ``kept``."""
        rows = kept[..., 0]
        if not self.is_packed:
            return rows
        if self.softmax_layout:
            return rows.T.unsqueeze(0)
        x = torch.zeros(1, rows.size(1), rows.size(0))
        for queries, _ in pairs:
            x[0, :, queries.start : queries.stop] = rows[queries.start : queries.stop].reshape(
                rows.size(1), queries.length
            )
        return x
