"""The sample of a day: tests that are long run a few of their cases, other ones each day."""

import os
from collections.abc import Sequence
from datetime import date
from typing import TypeVar

T = TypeVar("T")

# GRAPH_QUANT_SAMPLE repeats a day's sample.
DAY = int(os.environ.get("GRAPH_QUANT_SAMPLE", date.today().toordinal()))


def daily_sample(cases: Sequence[T], count: int = 1) -> list[T]:
    """`count` of the cases; all of them where GRAPH_QUANT_EXAMPLES asks for the long form."""
    if "GRAPH_QUANT_EXAMPLES" in os.environ:
        return list(cases)
    return [cases[(DAY * count + index) % len(cases)] for index in range(min(count, len(cases)))]
