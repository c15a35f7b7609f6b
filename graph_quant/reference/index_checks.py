"""Positions that data names: a device does not look at them, and writes where they point to; the host refuses them."""

from __future__ import annotations

from graph_quant.reference.checks import value_check
from graph_quant.refusals import Refusal
from torch import Tensor


@value_check
def within(op: str, argument: str, index: Tensor, low: int, high: int) -> Tensor:
    """``index``, refused where a value is not from ``low`` to below ``high``."""
    wrong = ((index < low) | (index >= high)).nonzero()
    if wrong.numel():
        place = tuple(wrong[0].tolist())
        where = "".join(f"[{each}]" for each in place)
        raise Refusal(f"{op}: {argument}{where} must lie in [{low}, {high - 1}], got {int(index[place])}")
    return index
