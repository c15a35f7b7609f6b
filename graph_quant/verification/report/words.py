"""Numbers and results as text for people."""

from __future__ import annotations

import math

from ..compare.metrics import Deviation

_SHORT = {"float": "f", "bfloat": "bf", "int": "i", "uint": "u", "complex": "c"}


def number(value: float, digits: int = 3) -> str:
    """A number with a few significant digits."""
    if value == 0:
        return "0"
    if not math.isfinite(value):
        return "∞" if value > 0 else "-∞"
    if value == int(value) and abs(value) < 100_000:
        return str(int(value))
    return f"{value:.{digits}g}"


def decibel(value: float) -> str:
    """An SQNR, without its unit."""
    return f"{value:.1f}" if math.isfinite(value) else number(value)


def share(part: float) -> str:
    """A share in percent; a nonzero share is never shown as 0%."""
    if part in (0.0, 1.0):
        return f"{part:.0%}"
    return f"{part:.1%}" if 0.001 <= part < 0.9995 else ("<0.1%" if part < 0.5 else ">99.9%")


def result_type(dtype: str, shape: tuple[int, ...]) -> str:
    """``f16[8,64]``."""
    letters = dtype.rstrip("0123456789")
    short = _SHORT[letters] + dtype[len(letters) :] if letters in _SHORT else dtype
    return f"{short}[{','.join(map(str, shape))}]"


def wrong(difference: Deviation) -> str:
    """The difference of a result, in a phrase."""
    if difference.equal:
        return "equal bits"
    if difference.first is None:
        return difference.mismatch
    first = difference.first
    reference, graph = _apart(first.reference, first.graph)
    where = f"at {list(first.index)} {reference} became {graph}"
    text = f"{difference.differing} of {difference.total} values differ, the first {where}"
    return f"{difference.mismatch}; {text}" if difference.mismatch else text


def measures(difference: Deviation) -> str:
    """The errors and the SQNR."""
    largest, mean = number(difference.max_error), number(difference.mean_error)
    return f"max error {largest}, mean error {mean}, SQNR {decibel(difference.sqnr)} dB"


def count(number_of: int, thing: str) -> str:
    """``1 graph``, ``2 graphs``."""
    return f"{number_of} {thing}{'' if number_of == 1 else 's'}"


def _apart(one: float | int | str, other: float | int | str) -> tuple[str, str]:
    """Two values with as many digits as it takes to distinguish them."""
    for digits in (6, 9, 17):
        written = [f"{value:.{digits}g}" if isinstance(value, float) else str(value) for value in (one, other)]
        if written[0] != written[1]:
            break
    return written[0], written[1]
