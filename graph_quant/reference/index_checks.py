"""Range checks of index tensors. A device does not check them and writes out of bounds; the host refuses them."""

from __future__ import annotations

from graph_quant.reference.checks import value_check
from graph_quant.refusals import Refusal
from torch import Tensor


@value_check
def checked_index(op: str, argument: str, index: Tensor, low: int, high: int) -> Tensor:
    """``index``, refused at its first value outside [low, high)."""
    wrong = ((index < low) | (index >= high)).nonzero()
    if wrong.numel():
        position = tuple(wrong[0].tolist())
        where = "".join(f"[{axis_index}]" for axis_index in position)
        raise Refusal(f"{op}: {argument}{where} must lie in [{low}, {high - 1}], got {int(index[position])}")
    return index


def check_range(op: str, argument: str, index: Tensor, lowest: int, end: int) -> None:
    """Refuse ``index`` if its smallest value is below ``lowest`` or its largest is not below ``end``."""
    if index.numel() == 0:
        return
    smallest, largest = (int(extreme) for extreme in index.aminmax())
    if smallest < lowest or largest >= end:
        value = smallest if smallest < lowest else largest
        where = "][".join(map(str, (index == value).nonzero()[0].tolist()))
        raise Refusal(f"{op}: {argument}[{where}] must lie in [{lowest}, {end - 1}], got {value}")
