"""A call of attention for training: its sequences, which keys a query does not see, and the rows that are kept.

Beyond the sparse modes of inference (``masks``), mode 5 is a mask that says all, 6 shows the first keys, as many as
prefix says, beside those up to the diagonal from the lower right corner, 7 is mode 4 for the last sequence and 3 for
the others, 8 is mode 4 for the first and 2 for the others. Without a mask no mode hides anything.
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
from .layouts import to_bnsd
from .pse_shift import Pairs, PseShift, slice_sequence
from .sequence_attention import HIDDEN
from .token_spans import TokenSpan

# The kernels keep a row's maximum and sum eight times, for the sake of alignment.
COPIES = 8
_ROW_FIX = 2
PREFIX_TABLE, BAND_LAST, BAND_FIRST = 6, 7, 8
TABLES = (2, 3, 4, PREFIX_TABLE)
# Seed and offset of the generator that drew a mask.
RngState = tuple[int, int]


def repeat_kv(x: Tensor, heads: int) -> Tensor:
    """``x`` of the heads of key for each head of query."""
    return x if x.size(0) == heads else x.repeat_interleave(heads // x.size(0), 0)


@dataclass(frozen=True)
class TrainingCall:
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
    softmax_layout: str = ""
    pse_type: int = 1
    starts: tuple[int, int] = (0, 0)
    keep_prob: float = 1.0
    dropout_mask: Tensor | None = None
    rng_state: RngState | None = None

    @property
    def is_packed(self) -> bool:
        """Whether sequences stand one after the other."""
        return self.input_layout == "TND"

    @property
    def is_plain(self) -> bool:
        """Whether scores are products alone."""
        return self.pse is None and self.sink is None

    @cached_property
    def shift(self) -> PseShift | None:
        """What is added to scores."""
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
        """The tokens of query and of key of each sequence; ends of 0 after others are of none."""
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
        """The scores of one sequence (head, query, key), and which queries give nothing, (head or 1, query), if any."""
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
        """Whether each weight is kept, those of all sequences one after the other; None where all are."""
        if self.dropout_mask is None and self.rng_state is None:
            return None
        count = self.head_num * sum(queries.length * keys.length for queries, keys in pairs)
        if self.dropout_mask is not None:
            return unpack_mask(self.dropout_mask, count)
        assert self.rng_state is not None
        return unpack_mask(dropout_mask_bits(*self.rng_state, count, self.keep_prob), count)

    def dropped(self, weights: Tensor, kept: Tensor | None, pairs: Pairs, sequence: int) -> Tensor:
        """The weights of one sequence that are kept, enlarged, and zeros."""
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

    def native_mask(self, pairs: Pairs, sequence: int) -> native.Hidden:
        """What is hidden in one sequence."""
        if self.sparse_mode == PREFIX_TABLE:  # no two numbers say where its keys begin and end
            return native.Hidden(self._hidden(pairs, sequence)[0], gives_zeros=True)
        band, by_mask = self._band_and_mask(pairs, sequence)
        last, first = (None, None) if band is None else band.reach(*(span.length for span in pairs[sequence]))
        return native.Hidden(by_mask, first, last, bool(self.inner_precise & _ROW_FIX))

    def _band_and_mask(self, pairs: Pairs, sequence: int) -> tuple[masks.Mask | None, Tensor | None]:
        """What hides keys of one sequence by their place, and what the mask (head or 1, query, key) says of them."""
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
        """Whether a mask of packed sequences is of all tokens; one of the longest sequences serves every one."""
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
        """The kernel of packed sequences has no query that sees no key by its place."""
        queries, keys = (span.length for span in pairs[sequence])
        most = {0: keys + self.pre_tockens, 3: keys, 4: keys + self.next_tockens}.get(self.sparse_mode, queries)
        if queries > most and (keys or self.sparse_mode == 3):
            raise Refusal(
                f"{self.op}: sequence {sequence} must have at most {most} queries for {keys} keys in sparse_mode "
                f"{self.sparse_mode} and layout TND, got {queries}"
            )

    def kept(self, x: Tensor, pairs: Pairs) -> Tensor:
        """Rows (batch, head, token) as they are kept: those of a packed sequence by head, unless by token is asked."""
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
        """What ``kept`` was given."""
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
