"""Where the groups of a grouped product lie: ``group_list`` in its three spellings.

0 gives where each group ends, 1 how long it is, 2 rows ``[weight, length]`` with the groups that have any first. The
sizes may add up to less than there is; what is left over belongs to no group.
"""

from __future__ import annotations

from dataclasses import dataclass

from graph_quant.reference.opaque import opaque
from graph_quant.refusals import Refusal
from torch import Tensor

ENDS, COUNTS, SPARSE = 0, 1, 2


@dataclass(frozen=True)
class Span:
    """Rows, or columns, ``start`` to ``end``, which weight number ``weight`` multiplies."""

    weight: int
    start: int
    end: int

    @property
    def as_slice(self) -> slice:
        """The span as an index."""
        return slice(self.start, self.end)


def spans(op: str, group_list: Tensor, kind: int, weights: int, extent: int, name: str = "group_list") -> list[Span]:
    """The groups that have a size, or RuntimeError where the device would read or write what is not its own."""
    values = group_list.tolist()
    chosen = list(range(len(values)))
    if kind == SPARSE:
        chosen, sizes = [row[0] for row in values], [row[1] for row in values]
        # The kernel stops at the first group without rows.
        sizes = sizes[: next((place for place, size in enumerate(sizes) if size == 0), len(sizes))]
    elif kind == ENDS:
        sizes = [end - start for start, end in zip([0, *values], values, strict=False)]
    else:
        sizes = values
    found, start = [], 0
    for place, (weight, size) in enumerate(zip(chosen, sizes, strict=False)):
        _check(f"{op}: {name}", values, kind, place, weight, size, weights)
        if start + size > extent:
            raise Refusal(f"{op}: the groups of {name} must fit {extent}, got {start + size} at group {place}")
        if size:
            found.append(Span(weight, start, start + size))
        start += size
    return found


def _check(name: str, values: list[int], kind: int, place: int, weight: int, size: int, weights: int) -> None:
    if kind == SPARSE and not 0 <= weight < weights:
        raise Refusal(f"{name}[{place}][0] must lie in [0, {weights}), the weights, got {weight}")
    if size >= 0:
        return
    if kind == ENDS and place:
        before, value = values[place - 1 : place + 1]
        raise Refusal(f"{name}[{place}] must not be below the value before it, got {value} after {before}")
    where = f"{name}[{place}][1]" if kind == SPARSE else f"{name}[{place}]"
    raise Refusal(f"{where} must not be negative, got {size}")


def check_pairs(op: str, group_list: Tensor, kind: int, rows: list[int]) -> None:
    """Refuses groups that are not the matrices of x, which are cut already."""
    found = {span.weight: span.end - span.start for span in spans(op, group_list, kind, len(rows), sum(rows))}
    for place, size in enumerate(rows):
        if found.get(place, 0) != size:
            raise Refusal(
                f"{op}: group {place} of group_list must have {size} rows, as x has, got {found.get(place, 0)}"
            )


def _infer_owners(op: str, name: str, group_list: Tensor, kind: int, weights: int, extent: int) -> Tensor:  # noqa: ARG001
    return group_list.new_empty((extent,))


@opaque(_infer_owners)
def owners(op: str, name: str, group_list: Tensor, kind: int, weights: int, extent: int) -> Tensor:
    """The group of each row; -1 for a row of none."""
    owner = group_list.new_full((extent,), -1)
    for span in spans(op, group_list, kind, weights, extent, name):
        owner[span.as_slice] = span.weight
    return owner
