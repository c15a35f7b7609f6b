"""Indices whose values have to lie in a range."""

from __future__ import annotations

from graph_quant.refusals import Refusal
from torch import Tensor


def check_range(op: str, argument: str, index: Tensor, lowest: int, end: int) -> None:
    """RuntimeError for the first value of ``index`` that is below ``lowest``, or not below ``end``."""
    if index.numel() == 0:
        return
    smallest, largest = (int(each) for each in index.aminmax())
    if smallest < lowest or largest >= end:
        value = smallest if smallest < lowest else largest
        place = "][".join(map(str, (index == value).nonzero()[0].tolist()))
        raise Refusal(f"{op}: {argument}[{place}] must lie in [{lowest}, {end - 1}], got {value}")
