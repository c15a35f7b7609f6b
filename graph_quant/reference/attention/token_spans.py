"""Spans of tokens: which tokens of an operand belong to which sequence."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from graph_quant.refusals import Refusal


class TokenSpan(NamedTuple):
    """Tokens ``start`` to ``stop`` of one batch of an operand."""

    batch: int
    start: int
    stop: int

    @property
    def length(self) -> int:
        """The number of tokens."""
        return self.stop - self.start


def _refuse(op: str, name: str, position: int, rule: str, got: int) -> None:
    raise Refusal(f"{op}: {name}[{position}] must {rule}, got {got}")


def packed_spans(op: str, name: str, ends: Sequence[int], tokens: int) -> list[TokenSpan]:
    """The spans of packed sequences; ``ends[i]`` is the exclusive end of sequence i."""
    for position, (before, end) in enumerate(pairwise((0, *ends))):
        if end < before:
            _refuse(op, name, position, f"not be below {before}, the value before it", end)
        if end > tokens:
            _refuse(op, name, position, f"be at most {tokens}, the number of tokens", end)
    return [TokenSpan(0, start, stop) for start, stop in pairwise((0, *ends))]


def lengths_per_batch(op: str, name: str, lengths: Sequence[int] | None, batches: int, most: int) -> list[int]:
    """One length per batch; a single length applies to all batches, None means all tokens."""
    if lengths is None:
        return [most] * batches
    chosen = list(lengths) * batches if len(lengths) == 1 else list(lengths)[:batches]
    if len(chosen) < batches:
        raise Refusal(f"{op}: {name} must have 1 element or at least {batches}, got {len(chosen)}")
    for position, length in enumerate(chosen):
        if not 0 <= length <= most:
            _refuse(op, name, position, f"lie in [0, {most}], the tokens there are", length)
    return chosen


def batched_spans(
    op: str, name: str, lengths: Sequence[int] | None, batches: int, tokens: int, padding: int
) -> list[TokenSpan]:
    """One span per batch, followed by ``padding`` tokens, or aligned to the left where that is negative."""
    chosen = lengths_per_batch(op, name, lengths, batches, tokens)
    if padding < 0:
        return [TokenSpan(batch, 0, length) for batch, length in enumerate(chosen)]
    spans = [TokenSpan(batch, tokens - padding - length, tokens - padding) for batch, length in enumerate(chosen)]
    for span in spans:
        if span.start < 0:
            rule = f"be at most {tokens - padding}, the tokens before the padding"
            _refuse(op, name, span.batch, rule, span.length)
    return spans
