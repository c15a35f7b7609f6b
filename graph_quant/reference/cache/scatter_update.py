"""scatter_update and scatter_update_: writes each batch of updates from a position of an axis on.

indices has a position for each batch, or rows of a batch and a position.
"""

from __future__ import annotations

import torch
from graph_quant.chip import A2_A3_950
from graph_quant.ge import kernel
from graph_quant.reference.index_checks import checked_index
from torch import Tensor


def scatter_update_(x: Tensor, indices: Tensor, updates: Tensor, axis: int) -> Tensor:
    """Writes ``updates`` into ``x`` in place."""
    return write_updates("scatter_update", x, indices, updates, axis)


def write_updates(op: str, x: Tensor, indices: Tensor, updates: Tensor, axis: int) -> Tensor:
    """Writes ``updates`` into ``x`` in place; refusals name ``op``."""
    if not updates.numel():
        return x
    axis, length = axis % x.dim(), updates.size(axis)
    batches, starts = _start_positions(op, indices.long(), x, axis, length)
    for_axis = [-1 if dim == axis else 1 for dim in range(x.dim())]
    index = starts.reshape([-1] + [1] * (x.dim() - 1)) + torch.arange(length).reshape(for_axis)
    if batches is None:
        return x.scatter_(axis, index.expand(updates.shape), updates)
    rows = x[batches].scatter(axis, index.expand(updates.shape), updates)
    return x.index_copy_(0, batches, rows)


def _start_positions(op: str, indices: Tensor, x: Tensor, axis: int, length: int) -> tuple[Tensor | None, Tensor]:
    """The batches to write, None if all in order, and their start positions."""
    last = x.size(axis) - length + 1
    if indices.dim() == 1:
        return None, checked_index(op, "indices", indices, 0, last)
    batches = checked_index(op, "indices[..., 0]", indices[:, 0].contiguous(), 0, x.size(0))
    return batches, checked_index(op, "indices[..., 1]", indices[:, 1].contiguous(), 0, last)


def scatter_update(x: Tensor, indices: Tensor, updates: Tensor, axis: int) -> Tensor:
    """A copy of ``x`` with ``updates`` written."""
    return scatter_update_(x.clone(), indices, updates, axis)


@kernel("Scatter", may_alias=True, chips=A2_A3_950)
def scatter_node(var: Tensor, indices: Tensor, updates: Tensor, *, reduce: str, axis: int = 0) -> Tensor:
    if reduce != "update":
        raise NotImplementedError(f"Scatter: reduce={reduce!r} has no host kernel, only 'update'")
    return scatter_update_(var, indices, updates, axis)
