"""Finds repeating blocks in a sequence: the layers of a model, in execution order."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import numpy.typing as npt

_SHORTEST, _LONGEST = 3, 4096

Numbers = npt.NDArray[np.int64]


def find_repeats(kinds: Sequence[Hashable]) -> list[tuple[int, int, int]]:
    """Return start, period and number of repetitions of each repeating block, in order and without overlap.

    Greedy: takes the block with the largest coverage, the shorter period on a tie, then searches both remainders.
    """
    numbers: dict[Hashable, int] = {}
    sequence = np.array([numbers.setdefault(kind, len(numbers)) for kind in kinds], dtype=np.int64)
    repeats: list[tuple[int, int, int]] = []
    waiting = [(0, len(sequence))]
    while waiting:
        first, last = waiting.pop()
        best = _best_repeat(sequence[first:last])
        if best is None:
            continue
        start, period, times = best
        repeats.append((first + start, period, times))
        waiting += [(first, first + start), (first + start + period * times, last)]
    return sorted(repeats)


def _best_repeat(sequence: Numbers) -> tuple[int, int, int] | None:
    best, covered = None, 0
    for period in range(1, min(len(sequence) // 2, _LONGEST) + 1):
        if len(sequence) <= covered:
            break
        start, length = _longest_run(sequence[period:] == sequence[:-period])
        times = length // period + 1
        if times > 1 and max(period, len(set(sequence[start : start + period].tolist()))) >= _SHORTEST:
            total = period * times
            if total > covered and len(set(sequence[start : start + period].tolist())) > 1:
                best, covered = (start, period, times), total
    return best


def _longest_run(same: npt.NDArray[np.bool_]) -> tuple[int, int]:
    """Start and length of the longest run of True."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], same.view(np.int8), [0]))))
    if not len(edges):
        return 0, 0
    lengths = edges[1::2] - edges[::2]
    longest = int(lengths.argmax())
    return int(edges[::2][longest]), int(lengths[longest])
