"""Resampling of channels-first images and volumes."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from ...ge import CHANNELS_FIRST, Sizes, kernel
from ...reference.half_precision import upcast_half

_INTERPOLATIONS = {"bilinear": 0, "nearest": 1, "bicubic": 2}
_PADDINGS = {"zeros": 0, "border": 1, "reflection": 2}


@kernel("ResizeNearestNeighborV2")
def resize_nearest(x: Tensor, size: Sizes, *, align_corners: bool = False, half_pixel_centers: bool = False) -> Tensor:
    if align_corners:
        raise NotImplementedError("ResizeNearestNeighborV2 with align_corners")
    mode = "nearest-exact" if half_pixel_centers else "nearest"
    return functional.interpolate(x, list(size.ints), mode=mode)


@kernel("ResizeNearestNeighborV2Grad")
def resize_nearest_grad(
    grads: Tensor, size: Sizes, *, align_corners: bool = False, half_pixel_centers: bool = False
) -> Tensor:
    if align_corners:
        raise NotImplementedError("ResizeNearestNeighborV2Grad with align_corners")
    aten = torch.ops.aten
    backward = aten._upsample_nearest_exact2d_backward if half_pixel_centers else aten.upsample_nearest2d_backward
    return backward(grads, list(grads.shape[2:]), [*grads.shape[:2], *size.ints])  # type: ignore[no-any-return]


@kernel("GridSampler2D", "GridSampler3D", only=CHANNELS_FIRST)
def grid_sampler(
    x: Tensor,
    grid: Tensor,
    *,
    interpolation_mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool = False,
) -> Tensor:
    wide = functional.grid_sample(upcast_half(x), upcast_half(grid), interpolation_mode, padding_mode, align_corners)
    return wide.to(x.dtype)


@kernel("GridSampler2DGrad")
def grid_sampler_grad(
    grad: Tensor,
    x: Tensor,
    grid: Tensor,
    *,
    interpolation_mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool = False,
) -> tuple[Tensor, Tensor]:
    expected = (*x.shape[:2], *grid.shape[1:3])
    if tuple(grad.shape) != expected:
        raise ValueError(f"grad must have the shape {expected} of the result, got {tuple(grad.shape)}")
    mode, padding = _INTERPOLATIONS[interpolation_mode], _PADDINGS[padding_mode]
    return torch.ops.aten.grid_sampler_2d_backward(grad, x, grid, mode, padding, align_corners, [True, True])  # type: ignore[no-any-return]
