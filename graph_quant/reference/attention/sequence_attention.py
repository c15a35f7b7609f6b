"""Attention of one sequence: queries (head, token, channel) over keys and values with fewer heads.

One pass over the keys with the final row maximum. Kernels process keys in tiles and rescale, so that on long rows they
round weights against the maximum so far.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from .antiquant import Dequantiser
from .arithmetic import Arithmetic

# Keys per tile, so that a float32 tile stays in the CPU cache, and the most scores held at a time.
_TILE = 1024
_MOST_SCORES = 1 << 22
HIDDEN = torch.finfo(torch.float32).min
# exp of this and of anything below is 0 in float32.
_VANISHING = -104.0


class TokenSource(Protocol):
    """Keys or values of one sequence, dense or paged."""

    @property
    def heads(self) -> int: ...

    @property
    def tokens(self) -> int: ...

    @property
    def channels(self) -> int: ...

    def fill(self, tile: Tensor, head: int, start: int) -> None:
        """Copies tokens of one head, starting at ``start``, into ``tile`` (token, channel) until it is full."""


@dataclass(frozen=True)
class DenseTokens:
    """Tokens in one tensor, (head, token, channel)."""

    tensor: Tensor

    @property
    def heads(self) -> int:
        return self.tensor.size(0)

    @property
    def tokens(self) -> int:
        return self.tensor.size(1)

    @property
    def channels(self) -> int:
        return self.tensor.size(2)

    def fill(self, tile: Tensor, head: int, start: int) -> None:
        tile.copy_(self.tensor[head, start : start + tile.size(0)])


@dataclass(frozen=True)
class CachedTokens:
    """Keys or values of one sequence: sources whose channels are concatenated."""

    parts: Sequence[TokenSource]
    dequantiser: Dequantiser | None = None

    @property
    def heads(self) -> int:
        return self.parts[0].heads

    @property
    def tokens(self) -> int:
        return self.parts[0].tokens

    @property
    def channels(self) -> int:
        return sum(part.channels for part in self.parts)

    def buffer(self) -> Tensor:
        """An empty tile."""
        return torch.empty(min(_TILE, self.tokens), self.channels)

    def tile(self, head: int, start: int, room: Tensor) -> Tensor:
        """A tile of tokens from ``start`` on, in float32."""
        tile = room[: min(_TILE, self.tokens - start)]
        column = 0
        for part in self.parts:
            part.fill(tile[:, column : column + part.channels], head, start)
            column += part.channels
        if self.dequantiser is not None:
            self.dequantiser.apply(tile, head, start)
        return tile


@dataclass(frozen=True)
class ScoreMod:
    """Changes to the scores of a sequence; ``shift`` and ``hidden`` are broadcast over (head, query, key).

    ``sink`` is one score per head that takes weight and has no value. ``void`` are the queries, (head, query), whose
    result is zeros: those without a visible key, as far as the kernels detect them. A query that is not detected has
    equal scores, and its result is the mean of the values.
    """

    shift: Tensor | None = None
    hidden: Tensor | None = None
    sink: Tensor | None = None
    void: Tensor | None = None


def exponentials_(differences: Tensor) -> Tensor:
    """``exp`` in place. Differences that underflow become -inf first, because exp of them is slow otherwise."""
    return torch.threshold_(differences, _VANISHING, -torch.inf).exp_()


def attend(
    query: Tensor, keys: CachedTokens, values: CachedTokens, score_mod: ScoreMod, arithmetic: Arithmetic
) -> tuple[Tensor, Tensor]:
    """The result (head, query, channel) and the log-sum-exp (head, query), float32."""
    heads, tokens, _ = query.shape
    out = torch.zeros(heads, tokens, values.channels)
    lse = torch.full((heads, tokens), torch.inf)
    if keys.tokens == 0:
        return out, lse
    group = heads // keys.heads
    step = max(1, _MOST_SCORES // (group * keys.tokens))
    key_room, value_room = keys.buffer(), values.buffer()
    for head in range(keys.heads):
        of_head = slice(head * group, (head + 1) * group)
        for start in range(0, tokens, step):
            part = slice(start, min(start + step, tokens))
            rows = query[of_head, part].float()
            scores = _compute_scores(rows.flatten(0, 1), keys, head, key_room)
            scores = arithmetic.scores(scores, _row_indices(of_head, part, tokens)).view(*rows.shape[:2], -1)
            _apply_score_mod(scores, score_mod, of_head, part)
            largest = scores.amax(-1, keepdim=True)
            weights = exponentials_(scores.sub_(largest))
            total = weights.sum(-1, keepdim=True)
            lse[of_head, part] = total.log().add_(largest).squeeze(-1)
            if score_mod.sink is not None:
                total = total + (score_mod.sink[of_head, None, None] - largest).exp_()
            sums = _weighted_sum(arithmetic.weights(weights).flatten(0, 1), values, head, value_room)
            out[of_head, part] = arithmetic.result(sums.view(*rows.shape[:2], -1), total)
    if score_mod.void is not None:
        out.masked_fill_(score_mod.void.unsqueeze(-1), 0.0)
        lse.masked_fill_(score_mod.void, torch.inf)
    return out, lse


def _row_indices(heads: slice, part: slice, tokens: int) -> Tensor:
    """The indices of these rows among all (head, query) rows."""
    first = torch.arange(heads.start, heads.stop)[:, None] * tokens
    return (first + torch.arange(part.start, part.stop)).flatten()


def _compute_scores(rows: Tensor, keys: CachedTokens, head: int, room: Tensor) -> Tensor:
    scores = torch.empty(rows.size(0), keys.tokens)
    for start in range(0, keys.tokens, _TILE):
        tile = keys.tile(head, start, room)
        torch.mm(rows, tile.mT, out=scores[:, start : start + tile.size(0)])
    return scores


def _apply_score_mod(scores: Tensor, score_mod: ScoreMod, heads: slice, part: slice) -> None:
    """Shifts and masks scores in place."""
    if score_mod.shift is not None:
        scores += score_mod.shift[heads if score_mod.shift.size(0) > 1 else slice(1), part].float()
    if score_mod.hidden is not None:
        scores.masked_fill_(score_mod.hidden[:, part], HIDDEN)


def _weighted_sum(weights: Tensor, values: CachedTokens, head: int, room: Tensor) -> Tensor:
    sums = torch.zeros(weights.size(0), values.channels)
    for start in range(0, values.tokens, _TILE):
        tile = values.tile(head, start, room)
        sums.addmm_(weights[:, start : start + tile.size(0)], tile)
    return sums
