"""Row ranges of the groups of a grouped product, from the three encodings of ``group_list``.

Type 0 holds the end of each group, type 1 its length, type 2 rows ``[weight, length]`` with the nonempty groups first.
The lengths may add up to less than the extent; the remaining rows belong to no group.
"""

from __future__ import annotations

from dataclasses import dataclass

from graph_quant.mistakes import warn_once
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
    """The nonempty groups, or a Refusal where the device would read or write out of bounds."""
    values = group_list.tolist()
    selected = list(range(len(values)))
    if kind == SPARSE:
        selected, sizes = [row[0] for row in values], [row[1] for row in values]
        # The kernel stops at the first group without rows.
        sizes = sizes[: next((index for index, size in enumerate(sizes) if size == 0), len(sizes))]
    elif kind == ENDS:
        sizes = [end - start for start, end in zip([0, *values], values, strict=False)]
    else:
        sizes = values
    _warn_of_counts(op, name, kind, values, extent)
    groups, start = [], 0
    for index, (weight, size) in enumerate(zip(selected, sizes, strict=False)):
        _check(f"{op}: {name}", values, kind, index, weight, size, weights)
        if start + size > extent:
            raise Refusal(f"{op}: the groups of {name} must fit {extent}, got {start + size} at group {index}")
        if size:
            groups.append(Span(weight, start, start + size))
        start += size
    return groups


def _warn_of_counts(op: str, name: str, kind: int, values: list[int], extent: int) -> None:
    """Warn of ends that look like counts: they add up to all rows, and as ends leave rows without a group."""
    if kind == ENDS and len(values) > 1 and sum(values) == extent != values[-1] and values == sorted(values):
        warn_once(
            op,
            name,
            f"{name} {values} adds up to the {extent} rows, as counts do, but its type is 0, the ends of groups: rows "
            f"from {values[-1]} on are in no group; pass the cumulative sums, or type 1",
        )


def _check(name: str, values: list[int], kind: int, index: int, weight: int, size: int, weights: int) -> None:
    if kind == SPARSE and not 0 <= weight < weights:
        raise Refusal(f"{name}[{index}][0] must lie in [0, {weights}), the weights, got {weight}")
    if size >= 0:
        return
    if kind == ENDS and index:
        before, value = values[index - 1 : index + 1]
        raise Refusal(f"{name}[{index}] must not be below the value before it, got {value} after {before}")
    where = f"{name}[{index}][1]" if kind == SPARSE else f"{name}[{index}]"
    raise Refusal(f"{where} must not be negative, got {size}")


def check_pairs(op: str, group_list: Tensor, kind: int, rows: list[int]) -> None:
    """Refuse groups whose sizes are not the rows of the matrices of x."""
    sizes = {span.weight: span.end - span.start for span in spans(op, group_list, kind, len(rows), sum(rows))}
    for index, size in enumerate(rows):
        if sizes.get(index, 0) != size:
            raise Refusal(
                f"{op}: group {index} of group_list must have {size} rows, as x has, got {sizes.get(index, 0)}"
            )


def _infer_owners(op: str, name: str, group_list: Tensor, kind: int, weights: int, extent: int) -> Tensor:  # noqa: ARG001
    return group_list.new_empty((extent,))


@opaque(_infer_owners)
def owners(op: str, name: str, group_list: Tensor, kind: int, weights: int, extent: int) -> Tensor:
    """The group index of each row; -1 for a row of no group."""
    owner = group_list.new_full((extent,), -1)
    for span in spans(op, group_list, kind, weights, extent, name):
        owner[span.as_slice] = span.weight
    return owner
