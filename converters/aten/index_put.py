"""aten.index_put: a mask becomes a select, indices become IndexPutV2; TorchAir lowers neither.

IndexPutV2 writes into its input, so that it gets a copy. Its values must have the shape of what they replace.
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
Indices = Sequence[torch.Tensor | None]


@decomposes(aten.index_put.default)
def index_put(x: torch.Tensor, indices: Indices, values: torch.Tensor, accumulate: bool = False) -> Any:
    """Convert masks to indices, and expand values; NotImplemented where neither is needed."""
    masks = [tensor for tensor in indices if tensor is not None and tensor.dtype in _MASKS]
    if masks:
        if len(indices) == 1:
            return _masked(x, masks[0].bool(), values, accumulate)
        return aten.index_put.default(x, _masks_to_indices(indices), values, accumulate)
    shape = _indexed_shape(x, indices)
    if len(shape) == values.dim() and all(map(_same, shape, values.shape)):
        return NotImplemented
    return aten.index_put.default(x, indices, values.expand(shape).clone(), accumulate)


def _same(one: int, other: int) -> bool:
    return statically_known_true(one == other)


def _masked(x: torch.Tensor, mask: torch.Tensor, values: torch.Tensor, accumulate: bool) -> torch.Tensor:
    """Select by a mask: one value for all of its elements, or one for each in order."""
    rest = x.dim() - mask.dim()
    full_mask = mask.reshape([*mask.shape, *[1] * rest]).expand(x.shape)
    if values.dim() > rest and not _same(values.size(0), 1):
        full = values.expand([values.size(0), *x.shape[mask.dim() :]])
        chosen = torch.zeros_like(x).masked_scatter(full_mask, full)
    else:
        chosen = (values.squeeze(0) if values.dim() > rest else values).expand(x.shape)
    return torch.where(full_mask, x + chosen if accumulate else chosen, x)


def _masks_to_indices(indices: Indices) -> list[torch.Tensor | None]:
    """Indices with each mask replaced by index tensors, one for each of its dimensions."""
    positions: list[torch.Tensor | None] = []
    for tensor in indices:
        positions += [tensor] if tensor is None or tensor.dtype not in _MASKS else tensor.nonzero().unbind(1)
    return positions


def _indexed_shape(x: torch.Tensor, indices: Indices) -> list[int]:
    """The shape of the replaced elements: indexed dimensions stay in position if adjacent, else they come first."""
    chosen = [axis for axis, tensor in enumerate(indices) if tensor is not None]
    common = list(torch.broadcast_shapes(*(tensor.shape for tensor in indices if tensor is not None)))
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
    positions = [in_type(DataType.DT_INT64, tensor) for tensor in indices if tensor is not None]
    mask = [int(tensor is not None) for tensor in indices]
    if x.rank == positions[0].rank == 1 and not accumulate:
        return ge.ScatterElements(x, positions[0], values, axis=0)
    sizes = ge.Const(mask, dtype=DataType.DT_INT64)
    return ge.IndexPutV2(ge.TensorMove(x), values, sizes, sizes, positions, accumulate=accumulate)
