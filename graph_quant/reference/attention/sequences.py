"""Sequences whose lengths are tensors: queries in BSND or TND, keys in the same layout or in pages."""

from __future__ import annotations

from graph_quant.refusals import Refusal
from torch import Tensor

from . import paging, token_spans
from .token_spans import TokenSpan

BSND, TND, PAGED = "BSND", "TND", "PA_BSND"
CAUSAL = 3


def query_spans(op: str, layout: str, lengths: Tensor | None, query: Tensor) -> list[TokenSpan]:
    """The span of each sequence in the tokens of all batches."""
    values, name = None if lengths is None else lengths.tolist(), "actual_seq_lengths_query"
    if layout == TND:
        return token_spans.packed_spans(op, name, values or (), query.size(0))
    tokens = query.size(1)
    batched = token_spans.batched_spans(op, name, values, query.size(0), tokens, -1)
    return [TokenSpan(span.batch, span.batch * tokens, span.batch * tokens + span.length) for span in batched]


class KeySequences:
    """The spans of the keys of each sequence, dense or paged."""

    def __init__(
        self, op: str, name: str, layout: str, lengths: Tensor | None, block_table: Tensor | None, key: Tensor
    ) -> None:
        self.op, self.layout, self.table, self.blocks, self.block_size = (
            op,
            layout,
            block_table,
            key.size(0),
            key.size(1),
        )
        values = None if lengths is None else lengths.tolist()
        if layout == TND:
            self.spans = token_spans.packed_spans(op, name, values or (), key.size(0))
        elif block_table is None:
            self.spans = token_spans.batched_spans(op, name, values, key.size(0), key.size(1), -1)
        else:
            most = block_table.size(1) * self.block_size
            checked = token_spans.lengths_per_batch(op, name, values, block_table.size(0), most)
            self.spans = [TokenSpan(batch, 0, length) for batch, length in enumerate(checked)]

    def rows(self, of: Tensor, sequence: int) -> Tensor:
        """The rows of ``of``, a tensor in the layout of the keys, for the tokens of a sequence."""
        span = self.spans[sequence]
        if self.table is not None:
            blocks = paging.checked_blocks(self.op, self.table, sequence, span.length, self.block_size, self.blocks)
            return of.index_select(0, blocks).flatten(0, 1)[: span.length]
        return of[span.start : span.stop] if self.layout == TND else of[span.batch, span.start : span.stop]

    def seen(self, sequence: int, queries: int, position: int, mode: int) -> int:
        """The number of leading keys that the query at ``position`` of ``queries`` sees."""
        length = self.spans[sequence].length
        return length if mode != CAUSAL else max(0, length - queries + position + 1)


def checked_indices(op: str, row: int, indices: Tensor, count: int) -> Tensor:
    """The indices of the keys that a token selects, refused outside of [0, ``count``): a kernel reads them all."""
    wrong = (indices < 0) | (indices >= count)
    if bool(wrong.any()):
        raise Refusal(
            f"{op}: sparse_indices[{row}], tokens counted one after the other, must name keys in [0, {count}), got "
            f"{int(indices[wrong][0])}"
        )
    return indices.long()
