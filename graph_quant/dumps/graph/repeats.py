"""Finds stretches that repeat in a sequence: the layers of a model, in the order in which they run."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import numpy.typing as npt

_SHORTEST, _LONGEST = 3, 4096

Numbers = npt.NDArray[np.int64]


def repeats(kinds: Sequence[Hashable]) -> list[tuple[int, int, int]]:
    """Start, length and number of repeating stretches, in order; none overlaps another.

    The stretch that covers most comes first, the shorter of two that cover as much; then what is left on either side.
    """
    numbers: dict[Hashable, int] = {}
    sequence = np.array([numbers.setdefault(kind, len(numbers)) for kind in kinds], dtype=np.int64)
    found: list[tuple[int, int, int]] = []
    waiting = [(0, len(sequence))]
    while waiting:
        first, last = waiting.pop()
        best = _best(sequence[first:last])
        if best is None:
            continue
        start, period, times = best
        found.append((first + start, period, times))
        waiting += [(first, first + start), (first + start + period * times, last)]
    return sorted(found)


def _best(sequence: Numbers) -> tuple[int, int, int] | None:
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
    """Where the longest run of True begins, and how long it is."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], same.view(np.int8), [0]))))
    if not len(edges):
        return 0, 0
    lengths = edges[1::2] - edges[::2]
    place = int(lengths.argmax())
    return int(edges[::2][place]), int(lengths[place])
