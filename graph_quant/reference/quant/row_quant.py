"""Quantisation of rows by the package's native code: opaque operators to tracers."""

from __future__ import annotations

import torch
from graph_quant import native
from graph_quant.destination import Destination
from graph_quant.dispatcher import step
from graph_quant.refusals import Refusal


def quantise_rows(x: torch.Tensor, smooth: torch.Tensor | None, inverts: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """The rows of a matrix that ``native.can_quantise_rows`` accepts, as int8, and the scale of each."""
    _check_size("smooth_scales", smooth, -1, x)
    if type(x) is torch.Tensor and not torch.compiler.is_dynamo_compiling():
        return _compute(x, smooth, inverts)
    return STEP(x, smooth, inverts)  # type: ignore[no-any-return]


def _compute(x: torch.Tensor, smooth: torch.Tensor | None, inverts: bool) -> tuple[torch.Tensor, torch.Tensor]:
    return native.quantise_rows(x, None if smooth is None else smooth.float().contiguous(), inverts)


def _infer(x: torch.Tensor, smooth: torch.Tensor | None, inverts: bool) -> tuple[torch.Tensor, torch.Tensor]:
    del smooth, inverts
    return x.new_empty(x.shape, dtype=torch.int8), x.new_empty((x.size(0),), dtype=torch.float32)


STEP = step("quantise_rows(Tensor x, Tensor? smooth, bool inverts) -> (Tensor, Tensor)", _compute, _infer)


def _check_size(name: str, parameter: torch.Tensor | None, dim: int, x: torch.Tensor) -> None:
    """Refuse a parameter without one number for each column: native code would read past its end."""
    if parameter is not None and parameter.size(dim) != x.size(1):
        raise Refusal(f"{name}.size({dim}) must equal x.size(1), got {parameter.size(dim)} and {x.size(1)}")


def can_map_rows(x: torch.Tensor, destination: Destination) -> bool:
    """Whether ``scale_rows`` and ``map_rows`` take this input; int4 is packed eight elements at a time."""
    if not (native.can_map_rows(x) and x.numel() and destination.storage in (torch.int8, torch.int32)):
        return False
    return destination.high <= _LARGEST and destination.packing in (1, _EIGHT) and x.size(-1) % destination.packing == 0


_LARGEST, _EIGHT = 127, 8


def scale_rows(
    x: torch.Tensor, scale: torch.Tensor, ends: torch.Tensor, offset: torch.Tensor | None, destination: Destination
) -> torch.Tensor:
    """``sat(rint(x * scale + offset))`` of a matrix that ``can_map_rows`` accepts, with a row of scales per group."""
    _check_size("scale", scale, 1, x)
    if scale.size(0) < ends.numel():
        raise Refusal(f"scale.size(0) must be at least the number of groups, got {scale.size(0)} and {ends.numel()}")
    arguments = (x, scale, ends, offset, destination.low, destination.high, destination.is_packed)
    if type(x) is torch.Tensor and not torch.compiler.is_dynamo_compiling():
        return _scale(*arguments)
    return SCALE(*arguments)  # type: ignore[no-any-return]


def _scale(
    x: torch.Tensor,
    scale: torch.Tensor,
    ends: torch.Tensor,
    offset: torch.Tensor | None,
    low: int,
    high: int,
    packs: bool,
) -> torch.Tensor:
    offset = None if offset is None else offset.float()
    return native.scale_rows(x, scale, ends.long().contiguous(), offset, (low, high), packs)


def _infer_scaled(
    x: torch.Tensor, _scale: torch.Tensor, _ends: torch.Tensor, _offset: torch.Tensor | None, *settings: int
) -> torch.Tensor:
    packs = settings[-1]
    width = x.size(1) // _EIGHT if packs else x.size(1)
    return x.new_empty((x.size(0), width), dtype=torch.int32 if packs else torch.int8)


SCALE = step(
    "scale_rows(Tensor x, Tensor scale, Tensor ends, Tensor? offset, int low, int high, bool packs) -> Tensor",
    _scale,
    _infer_scaled,
)


def map_rows(
    x: torch.Tensor, smooth: torch.Tensor | None, destination: Destination, top: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Rows of a matrix that ``can_map_rows`` accepts, quantised by their extremes; their scales and offsets."""
    _check_size("smooth_scales", smooth, -1, x)
    arguments = (x, smooth, destination.low, destination.high, top, destination.is_packed)
    if type(x) is torch.Tensor and not torch.compiler.is_dynamo_compiling():
        return _map(*arguments)
    return MAP(*arguments)  # type: ignore[no-any-return]


def _map(
    x: torch.Tensor, smooth: torch.Tensor | None, low: int, high: int, top: float, packs: bool
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return native.map_rows(x, None if smooth is None else smooth.float().contiguous(), (low, high), top, packs)


def _infer_mapped(
    x: torch.Tensor, smooth: torch.Tensor | None, low: int, high: int, top: float, packs: bool
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    del smooth, low, high, top
    width = x.size(1) // _EIGHT if packs else x.size(1)
    y = x.new_empty((x.size(0), width), dtype=torch.int32 if packs else torch.int8)
    scale, offset = (x.new_empty((x.size(0),), dtype=torch.float32) for _ in range(2))
    return y, scale, offset


MAP = step(
    "map_rows(Tensor x, Tensor? smooth, int low, int high, float top, bool packs) -> (Tensor, Tensor, Tensor)",
    _map,
    _infer_mapped,
)
