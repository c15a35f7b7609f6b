"""aten.index_put: masks are choices, places become IndexPutV2 of a copy; TorchAir lowers none.

IndexPutV2 writes into its input, so that it is given a copy. Its values have the shape of what they replace.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from graph_quant.converters.decompositions import decomposes
from graph_quant.converters.lowering import converts, in_type
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import DataType, Tensor

aten = torch.ops.aten
_MASKS = (torch.bool, torch.uint8)
Places = Sequence[torch.Tensor | None]


@decomposes(aten.index_put.default)
def index_put(x: torch.Tensor, indices: Places, values: torch.Tensor, accumulate: bool = False) -> Any:
    """The same with places for masks and values of the full shape; NotImplemented where it is so already."""
    masks = [place for place in indices if place is not None and place.dtype in _MASKS]
    if masks:
        if len(indices) == 1:
            return _masked(x, masks[0].bool(), values, accumulate)
        return aten.index_put.default(x, _places(indices), values, accumulate)
    shape = _indexed_shape(x, indices)
    if len(shape) == values.dim() and all(map(_same, shape, values.shape)):
        return NotImplemented
    return aten.index_put.default(x, indices, values.expand(shape).clone(), accumulate)


def _same(one: int, other: int) -> bool:
    return statically_known_true(one == other)


def _masked(x: torch.Tensor, mask: torch.Tensor, values: torch.Tensor, accumulate: bool) -> torch.Tensor:
    """One value for all places of the mask, or one for each in their order."""
    rest = x.dim() - mask.dim()
    everywhere = mask.reshape([*mask.shape, *[1] * rest]).expand(x.shape)
    if values.dim() > rest and not _same(values.size(0), 1):
        full = values.expand([values.size(0), *x.shape[mask.dim() :]])
        chosen = torch.zeros_like(x).masked_scatter(everywhere, full)
    else:
        chosen = (values.squeeze(0) if values.dim() > rest else values).expand(x.shape)
    return torch.where(everywhere, x + chosen if accumulate else chosen, x)


def _places(indices: Places) -> list[torch.Tensor | None]:
    """Masks as the places that they choose, one list of them for each of a mask's dimensions."""
    found: list[torch.Tensor | None] = []
    for place in indices:
        found += [place] if place is None or place.dtype not in _MASKS else place.nonzero().unbind(1)
    return found


def _indexed_shape(x: torch.Tensor, indices: Places) -> list[int]:
    """The shape of what is replaced: that of the places stands where they are neighbours, else first."""
    chosen = [axis for axis, place in enumerate(indices) if place is not None]
    common = list(torch.broadcast_shapes(*(place.shape for place in indices if place is not None)))
    kept = [size for axis, size in enumerate(x.shape) if axis not in chosen]
    start = chosen[0] if chosen == list(range(chosen[0], chosen[-1] + 1)) else 0
    return [*kept[:start], *common, *kept[start:]]


@converts(aten.index_put.default)
def lower(
    x: Tensor,
    indices: Sequence[Tensor | None],
    values: Tensor,
    accumulate: bool = False,
    meta_outputs: Any = None,  # noqa: ARG001
) -> Tensor:
    """The GE nodes of one call."""
    given = [in_type(DataType.DT_INT64, place) for place in indices if place is not None]
    mask = [int(place is not None) for place in indices]
    if x.rank == 1 and not accumulate:
        return ge.ScatterElements(x, given[0], values, axis=0) if given[0].rank == 1 else _put(x, values, mask, given)
    return _put(x, values, mask, given, accumulate)


def _put(x: Tensor, values: Tensor, mask: list[int], places: list[Tensor], accumulate: bool = False) -> Tensor:
    sizes = ge.Const(mask, dtype=DataType.DT_INT64)
    return ge.IndexPutV2(ge.TensorMove(x), values, sizes, sizes, places, accumulate=accumulate)
