"""Windows over images, resampling and padding."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from support.kernel_samples.base import (
    FLOATS,
    GE_NUMBERS,
    Case,
    gradient,
    kernel_sample,
    plain,
    shape,
    sizes,
    tensor,
    whole,
)


def _image(chance: random.Random, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Distinct integers, so that no window has two maxima."""
    full = [chance.randint(0, 2), chance.randint(1, 2), chance.randint(5, 7), chance.randint(5, 7)]
    return torch.randperm(int(np.prod(full))).reshape(full).to(dtype)


def _window(chance: random.Random) -> dict[str, Any]:
    window = [chance.randint(2, 3) for _ in range(2)]
    return {
        "ksize": [1, 1, *window],
        "strides": [1, 1, chance.randint(1, 3), chance.randint(1, 3)],
        "pads": [side for side in (chance.randint(0, 1), chance.randint(0, 1)) for _ in range(2)],
        "ceil_mode": chance.random() < 0.5,
    }


def _average(x: torch.Tensor, attributes: dict[str, Any]) -> torch.Tensor:
    pads = attributes["pads"]
    return functional.avg_pool2d(
        x,
        attributes["ksize"][2:],
        attributes["strides"][2:],
        [pads[0], pads[2]],
        attributes["ceil_mode"],
        not attributes["exclusive"],
        attributes["divisor_override"] or None,
    )


@kernel_sample("AvgPoolV2")
def avg_pool(chance: random.Random) -> Case:
    attributes = {**_window(chance), "exclusive": chance.random() < 0.5, "divisor_override": chance.choice((0, 0, 3))}
    x = _image(chance, chance.choice(FLOATS[:2]))
    return Case([x], attributes, _average(x, attributes))


@kernel_sample("AvgPoolV2Grad")
def avg_pool_grad(chance: random.Random) -> Case:
    attributes = {**_window(chance), "exclusive": chance.random() < 0.5, "divisor_override": chance.choice((0, 0, 3))}
    x = _image(chance)
    dy = plain(_average(x, attributes).shape)
    return Case([sizes(x.shape), dy], attributes, gradient(lambda a: _average(a, attributes), 0, dy, x))


@kernel_sample("AdaptiveAvgPool2d")
def adaptive_avg_pool(chance: random.Random) -> Case:
    x = _image(chance, chance.choice(FLOATS))[: chance.choice((None, 1))]
    wanted = [chance.randint(1, 8) for _ in range(2)]
    both = zip(x.shape[2:], wanted, strict=True)
    rows, columns = ([(at * n // w, -(-(at + 1) * n // w)) for at in range(w)] for n, w in both)
    means = [[x.double()[:, :, a:b, c:d].mean((2, 3)) for c, d in columns] for a, b in rows]
    expected = torch.stack([torch.stack(row, -1) for row in means], -2).to(x.dtype)
    return Case([x], {"output_size": wanted}, expected, bound=2)


@kernel_sample("AdaptiveAvgPool2dGrad")
def adaptive_avg_pool_grad(chance: random.Random) -> Case:
    x, wanted = _image(chance), (chance.randint(1, 8), chance.randint(1, 8))
    dy = plain([*x.shape[:2], *wanted])
    expected = gradient(lambda a: functional.adaptive_avg_pool2d(a, wanted), 0, dy, x)
    return Case([dy], {"orig_input_shape": list(x.shape)}, expected)


@kernel_sample("MaxPoolV3")
def max_pool(chance: random.Random) -> Case:
    attributes, x = _window(chance), _image(chance, chance.choice((torch.float32, torch.float64)))
    pads = attributes["pads"]
    padding = [pads[0], pads[2]]
    expected = functional.max_pool2d(
        x, attributes["ksize"][2:], attributes["strides"][2:], padding, ceil_mode=attributes["ceil_mode"]
    )
    return Case([x], attributes, expected)


@kernel_sample("MaxPoolWithArgmaxV3")
def max_pool_with_argmax(chance: random.Random) -> Case:
    x, window = _image(chance), [chance.randint(2, 3) for _ in range(2)]
    strides, pads, ceil = [chance.randint(1, 3) for _ in range(2)], [1, chance.randint(0, 1)], chance.random() < 0.5
    dtype = chance.choice((torch.int32, torch.int64))
    y, where = functional.max_pool2d(x, window, strides, pads, 1, ceil, return_indices=True)
    attributes = {"ksize": window, "strides": strides, "pads": pads, "ceil_mode": ceil, "dtype": GE_NUMBERS[dtype]}
    return Case([x], attributes, (y, where.to(dtype)))


def _nearest(length: int, wanted: int, exact: bool) -> list[int]:
    """The source pixel of each output pixel."""
    return [min(int((at + (0.5 if exact else 0)) * (length / wanted)), length - 1) for at in range(wanted)]


def _resized(x: torch.Tensor, wanted: list[int], exact: bool) -> torch.Tensor:
    rows, columns = (_nearest(length, count, exact) for length, count in zip(x.shape[2:], wanted, strict=True))
    return x[:, :, rows][:, :, :, columns]


# Lengths whose ratios to 2, 4 and 8 are exact, so that rounding does not decide on the source pixel.
LENGTHS = (1, 2, 4, 8)


@kernel_sample("ResizeNearestNeighborV2")
def resize_nearest(chance: random.Random) -> Case:
    x = plain([chance.randint(1, 2), 2, chance.randint(1, 7), chance.randint(1, 7)], chance.choice(FLOATS))
    wanted, exact = [chance.choice(LENGTHS) for _ in range(2)], chance.random() < 0.5
    return Case([x, sizes(wanted)], {"half_pixel_centers": exact}, _resized(x, wanted, exact))


@kernel_sample("ResizeNearestNeighborV2Grad")
def resize_nearest_grad(chance: random.Random) -> Case:
    x = whole([1, 2, chance.randint(1, 7), chance.randint(1, 7)])
    wanted, exact = [chance.choice(LENGTHS) for _ in range(2)], chance.random() < 0.5
    dy = whole([1, 2, *wanted])
    expected = gradient(lambda a: _resized(a, wanted, exact), 0, dy, x)
    return Case([dy, sizes(x.shape[2:])], {"half_pixel_centers": exact}, expected)


def _sampling(chance: random.Random, rank: int) -> tuple[torch.Tensor, torch.Tensor, dict[str, Any]]:
    x = plain([2, 2, *(chance.randint(1, 5) for _ in range(rank))])
    grid = torch.rand([2, *(chance.randint(1, 4) for _ in range(rank)), rank]) * 3 - 1.5
    settings = {
        "interpolation_mode": chance.choice(("bilinear", "nearest")),
        "padding_mode": chance.choice(("zeros", "border", "reflection")),
        "align_corners": chance.random() < 0.5,
    }
    return x, grid, settings


def _sampled(x: torch.Tensor, grid: torch.Tensor, attributes: dict[str, Any]) -> torch.Tensor:
    return functional.grid_sample(
        x,
        grid,
        attributes["interpolation_mode"],
        padding_mode=attributes["padding_mode"],
        align_corners=attributes["align_corners"],
    )


@kernel_sample("GridSampler2D")
def grid_sampler(chance: random.Random) -> Case:
    x, grid, attributes = _sampling(chance, 2)
    return Case([x, grid], attributes, _sampled(x, grid, attributes))


@kernel_sample("GridSampler3D")
def grid_sampler_3d(chance: random.Random) -> Case:
    x, grid, attributes = _sampling(chance, 3)
    return Case([x, grid], attributes, _sampled(x, grid, attributes))


@kernel_sample("GridSampler2DGrad")
def grid_sampler_grad(chance: random.Random) -> Case:
    x, grid, attributes = _sampling(chance, 2)
    dy = plain([2, 2, *grid.shape[1:3]])
    expected = [gradient(lambda a, b: _sampled(a, b, attributes), at, dy, x, grid) for at in range(2)]
    return Case([dy, x, grid], attributes, expected, bound=8)


def _pairs(chance: random.Random, x: torch.Tensor, most: int = 2) -> list[tuple[int, int]]:
    return [(chance.randint(0, most), chance.randint(0, most)) for _ in x.shape]


@kernel_sample("Pad")
def pad_zeros(chance: random.Random) -> Case:
    x = tensor(chance, shape(chance, 1), chance.choice((torch.float32, torch.float64, torch.int8, torch.int64)))
    pairs = _pairs(chance, x)
    expected = torch.from_numpy(np.pad(x.numpy(), pairs))
    return Case([x, sizes(side for two in pairs for side in two)], {}, expected)


@kernel_sample("PadV3")
def pad(chance: random.Random) -> Case:
    kinds = (torch.float32, torch.float16, torch.int8, torch.int32, torch.bool)
    x = tensor(chance, shape(chance, 1), chance.choice(kinds))
    pairs, contiguous = _pairs(chance, x), chance.random() < 0.7
    listed = [side for two in (pairs if contiguous else zip(*pairs, strict=True)) for side in two]
    value = None if chance.random() < 0.3 else torch.tensor(chance.choice((0, 1)), dtype=x.dtype)
    blank = 0 if value is None else value.item()
    expected = torch.from_numpy(np.pad(x.numpy(), pairs, constant_values=blank))
    return Case([x, sizes(listed), value], {"paddings_contiguous": contiguous}, expected)


def _mirrored(chance: random.Random, modes: tuple[str, ...]) -> tuple[torch.Tensor, list[tuple[int, int]], str]:
    """Only the last one to three dimensions are padded, which is what torch and TorchAir do."""
    x = whole([*shape(chance, most=1, zeros=False), *(chance.randint(3, 4) for _ in range(3))])
    padded = chance.randint(1, 3)
    pairs = [(0, 0)] * (x.dim() - padded) + [(chance.randint(1, 2), chance.randint(0, 2)) for _ in range(padded)]
    return x, pairs, chance.choice(modes)


@kernel_sample("MirrorPad")
def mirror_pad(chance: random.Random) -> Case:
    x, pairs, mode = _mirrored(chance, ("REFLECT",))
    expected = torch.from_numpy(np.pad(x.numpy(), pairs, mode="reflect"))
    return Case([x, sizes(side for two in pairs for side in two)], {"mode": mode}, expected)


@kernel_sample("PadV3Grad")
def pad_grad(chance: random.Random) -> Case:
    """Each element gets the sum of the gradients of its copies: NumPy pads element indices."""
    x, pairs, mode = _mirrored(chance, ("reflect", "edge"))
    from_where = np.pad(np.arange(x.numel()).reshape(x.shape), pairs, mode=mode)  # type: ignore[call-overload]
    dy = whole(from_where.shape)
    total = np.bincount(from_where.reshape(-1), dy.numpy().reshape(-1), x.numel()).reshape(x.shape)
    expected = torch.from_numpy(total).to(x.dtype)
    return Case([dy, sizes(side for two in pairs for side in two)], {"mode": mode}, expected)
