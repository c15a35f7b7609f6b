"""Decompositions of ATen operators that select, count or reduce elements by index, for eager calls and graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

_REDUCED = {"sum": "sum", "mean": "sum", "max": "amax", "min": "amin", "prod": "prod"}
_INITIAL = {"sum": 0.0, "mean": 0.0, "max": -torch.inf, "min": torch.inf, "prod": 1.0}


def mode(x: Tensor, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The most frequent value of each row, the smallest of several, and the last index at which it occurs."""
    if not x.dim():
        return x.clone(), torch.zeros((), dtype=torch.int64, device=x.device)
    values, indices = torch.sort(x, dim=dim, stable=True)
    values, indices = values.movedim(dim, -1), indices.movedim(dim, -1)
    steps = torch.arange(values.size(-1), device=x.device).expand(values.shape)
    differs = (values[..., 1:] != values[..., :-1]) & ~(torch.isnan(values[..., 1:]) & torch.isnan(values[..., :-1]))
    starts = torch.cat([torch.zeros_like(steps[..., :1]), torch.where(differs, steps[..., 1:], 0)], -1)
    so_far = steps - torch.cummax(starts, -1).values
    ends = so_far.argmax(-1, keepdim=True)
    results = (values.gather(-1, ends), indices.gather(-1, ends))
    most, where = (result.movedim(-1, dim) if keepdim else result.squeeze(-1) for result in results)
    return most.clone(), where.clone()


def nanmedian_dim(x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The lower median along ``dim``, ignoring NaN, and its index; NaN for a row of NaN."""
    if not x.dim():
        return x.clone(), torch.zeros((), dtype=torch.int64, device=x.device)
    values, indices = torch.sort(x, dim=dim, stable=True)
    numbers = (~torch.isnan(x)).sum(dim, keepdim=True)
    middle = ((numbers - 1) // 2).clamp(min=0)
    results = (values.gather(dim, middle), indices.gather(dim, middle))
    median, where = (result if keepdim else result.squeeze(dim) for result in results)
    return median.clone(), where.clone()


def nanmedian(x: Tensor) -> Tensor:
    """The median of all elements, ignoring NaN."""
    return nanmedian_dim(x.reshape(-1), 0)[0]


def nonzero_static(x: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """Indices of the nonzero elements, in ``size`` rows; those beyond go to one more row that is cut off."""
    if not x.dim():
        return torch.full((size, 0), fill_value, dtype=torch.int64, device=x.device)
    flat = (x != 0).reshape(-1)
    rows = torch.cumsum(flat, 0) - 1
    rows = torch.where(flat & (rows < size), rows, size)
    rest, columns = torch.arange(flat.numel(), device=x.device), []
    for length in reversed(x.shape):
        columns.append(rest % length)
        rest = torch.div(rest, length, rounding_mode="floor")
    table = torch.full((size + 1, x.dim()), fill_value, dtype=torch.int64, device=x.device)
    coordinates = torch.stack(columns[::-1], 1)
    return table.scatter(0, rows.unsqueeze(1).expand(-1, x.dim()), coordinates)[:size].clone()


def put(x: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """Replace elements, or add to them, by their indices in the flattened tensor."""
    return x.reshape(-1).index_put((index.reshape(-1),), source.reshape(-1), accumulate).reshape(x.shape)


def index_reduce(
    x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """Reduce slices of ``source`` into the slices of ``x`` that ``index`` names."""
    if not x.dim():
        return index_reduce(
            x.reshape(1), 0, index.reshape(-1), source.reshape(-1), reduce, include_self=include_self
        ).reshape(())
    shape = [1] * x.dim()
    shape[dim] = -1
    indices = index.reshape(shape).expand(source.shape)
    return x.scatter_reduce(dim, indices, source, reduce, include_self=include_self)


def segment_reduce(
    x: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,  # noqa: ARG001
    initial: Any = None,
) -> Any:
    """Reduce the rows of each segment; NotImplemented for nested segments."""
    if indices is not None or axis != 0 or (lengths if lengths is not None else offsets).dim() != 1:  # type: ignore[union-attr]
        return NotImplemented
    ends = torch.cumsum(lengths, 0) if offsets is None else offsets[1:]  # type: ignore[arg-type]
    rows = torch.searchsorted(ends, torch.arange(x.size(0), device=x.device, dtype=ends.dtype), right=True)
    first = _INITIAL[reduce] if initial is None else initial
    total = torch.full((ends.size(0), *x.shape[1:]), first, dtype=x.dtype, device=x.device)
    segments = rows.reshape([-1] + [1] * (x.dim() - 1)).expand(x.shape)
    total = total.scatter_reduce(0, segments, x, _REDUCED[reduce])
    if reduce != "mean":
        return total
    counts = torch.diff(ends, prepend=torch.zeros_like(ends[:1])).reshape([-1] + [1] * (x.dim() - 1))
    empty = torch.nan if initial is None else initial
    return torch.where(counts > 0, total / counts.to(x.dtype), empty).to(x.dtype)


def multilabel_margin_loss(x: Tensor, target: Tensor, reduction: int) -> tuple[Tensor, Tensor]:
    """The multi-label margin loss, of the labels before the first -1, and a mask of the labels."""
    rows, labels = torch.atleast_2d(x), torch.atleast_2d(target)
    classes = rows.size(1)
    positions = torch.arange(classes, device=x.device)
    counted = positions < torch.where(labels == -1, positions, classes).amin(-1, keepdim=True)
    of_labels = rows.gather(1, torch.where(counted, labels, 0))
    is_label = (positions == torch.where(counted, labels, -1).unsqueeze(-1)).any(1)
    margins = (1.0 - of_labels.unsqueeze(-1) + rows.unsqueeze(1)).clamp_min(0)
    counts = counted.unsqueeze(-1) & ~is_label.unsqueeze(1)
    loss = torch.where(counts, margins, 0).sum((1, 2)) / classes
    if reduction:
        loss = loss.mean() if reduction == 1 else loss.sum()
    elif x.dim() < 2:
        loss = loss.squeeze(0)
    return loss, is_label.to(x.dtype).reshape(target.shape)


ROUNDING: dict[str, Callable[..., Any]] = {
    "mode": mode,
    "multilabel_margin_loss_forward": multilabel_margin_loss,
    "nanmedian": nanmedian,
    "nanmedian.dim": nanmedian_dim,
}
PARTIAL: dict[str, Callable[..., Any]] = {"segment_reduce": segment_reduce}
GRAPH_ONLY: dict[str, Callable[..., Any]] = {
    "index_reduce": index_reduce,
    "nonzero_static": nonzero_static,
    "put": put,
}
