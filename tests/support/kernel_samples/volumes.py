"""Windows over volumes, columns of windows, distances between rows, and Fourier transforms."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import torch
from torch.nn import functional

from support.kernel_samples.base import Case, kernel_sample, plain, sizes, whole


def _volume(chance: random.Random) -> torch.Tensor:
    """Distinct integers, so that no window has two maxima."""
    full = [chance.randint(1, 2), chance.randint(1, 2), *(chance.randint(4, 6) for _ in range(3))]
    return torch.randperm(int(np.prod(full))).reshape(full).float()


@kernel_sample("AvgPool3D")
def avg_pool_volume(chance: random.Random) -> Case:
    x, last = _volume(chance), chance.random() < 0.5
    window, strides, pads = ([chance.choice(choice) for _ in range(3)] for choice in ((2, 3), (1, 2), (0, 1)))
    ceil, counted, divisor = chance.random() < 0.5, chance.random() < 0.5, chance.choice((0, 0, 3))
    expected = functional.avg_pool3d(x, window, strides, pads, ceil, counted, divisor or None)
    layout = (lambda sizes: [1, *sizes, 1]) if last else (lambda sizes: [1, 1, *sizes])
    attributes = {
        "ksize": layout(window), "strides": layout(strides), "pads": [pad for pad in pads for _ in range(2)],
        "ceil_mode": ceil, "count_include_pad": counted, "divisor_override": divisor,
        "data_format": "NDHWC" if last else "NCDHW",
    }  # fmt: skip
    source, wanted = (choice.movedim(1, -1) if last else choice for choice in (x, expected))
    return Case([source], attributes, wanted)


def _windows(x: torch.Tensor, wanted: list[int]) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...]]]:
    """The window of each cell of an adaptive pooling."""
    spans = [
        [slice(at * length // count, -(-(at + 1) * length // count)) for at in range(count)]
        for length, count in zip(x.shape[2:], wanted, strict=True)
    ]
    for cell in np.ndindex(*wanted):
        yield cell, tuple(spans[axis][at] for axis, at in enumerate(cell))


@kernel_sample("AdaptiveMaxPool3d")
def adaptive_max_pool_volume(chance: random.Random) -> Case:
    x = _volume(chance)
    wanted, wide = [chance.randint(1, 7) for _ in range(3)], chance.random() < 0.5
    positions = torch.arange(x[0, 0].numel()).reshape(x.shape[2:]).expand(x.shape)
    values, indices = torch.empty([*x.shape[:2], *wanted]), torch.empty([*x.shape[:2], *wanted], dtype=torch.int64)
    for cell, window in _windows(x, wanted):
        best = x[(..., *window)].flatten(2).argmax(2, keepdim=True)
        for result, source in ((values, x), (indices, positions)):
            result[(..., *cell)] = source[(..., *window)].flatten(2).gather(2, best).squeeze(2)
    attributes = {"output_size": wanted, "indices_dtype": 9 if wide else 3}
    return Case([x], attributes, (values, indices if wide else indices.int()))


@kernel_sample("AdaptiveAvgPool3d")
def adaptive_avg_pool_volume(chance: random.Random) -> Case:
    x, last = _volume(chance), chance.random() < 0.5
    wanted = [chance.randint(1, 7) for _ in range(3)]
    expected = torch.empty([*x.shape[:2], *wanted])
    for cell, window in _windows(x, wanted):
        expected[(..., *cell)] = x.double()[(..., *window)].mean((2, 3, 4)).float()
    source, result = (tensor.movedim(1, -1) if last else tensor for tensor in (x, expected))
    return Case([source], {"output_size": wanted, "data_format": "NDHWC" if last else "NCDHW"}, result, bound=2)


@kernel_sample("MaxPool3DWithArgmaxV2")
def max_pool_volume(chance: random.Random) -> Case:
    x = _volume(chance)
    window, strides, pads, apart = (
        [chance.choice(options) for _ in range(3)] for options in ((2, 3), (1, 2), (0, 1), (1, 1))
    )
    ceil = chance.random() < 0.5
    y, where = functional.max_pool3d(x, window, strides, pads, apart, ceil, return_indices=True)
    attributes = {"ksize": window, "strides": strides, "pads": pads, "dilation": apart, "ceil_mode": ceil}
    return Case([x], attributes, (y, where.int()))


@kernel_sample("Col2im")
def col2im(chance: random.Random) -> Case:
    """Add every element of a column at the position of its window."""
    height, width, step, pad = chance.randint(3, 5), chance.randint(3, 5), chance.randint(1, 2), chance.randint(0, 1)
    kernel = (2, chance.randint(1, 3))
    rows, columns = ((length + 2 * pad - k) // step + 1 for length, k in zip((height, width), kernel, strict=True))
    x = whole([2, 3, kernel[0] * kernel[1], rows * columns])
    image = torch.zeros(2, 3, height + 2 * pad, width + 2 * pad)
    for offset, (down, across) in enumerate(np.ndindex(*kernel)):
        for window, (row, column) in enumerate(np.ndindex(rows, columns)):
            image[:, :, row * step + down, column * step + across] += x[:, :, offset, window]
    expected = image[:, :, pad : pad + height, pad : pad + width]
    attributes = {"kernel_size": kernel, "dilation": (1, 1), "padding": (pad, pad), "stride": (step, step)}
    return Case([x, sizes((height, width))], attributes, expected)


def _distance(apart: torch.Tensor, p: float) -> torch.Tensor:
    """The norm of differences, along the last dimension; -1 means the infinity norm."""
    wide = apart.double().abs()
    if p < 0:
        return wide.amax(-1)
    return (wide != 0).sum(-1).double() if p == 0 else wide.pow(p).sum(-1).pow(1 / p)


@kernel_sample("Cdist")
def cdist(chance: random.Random) -> Case:
    dtype, p = chance.choice((torch.float32, torch.float16)), chance.choice((0.0, 1.0, 2.0, 3.0, -1.0))
    full = [chance.randint(1, 2), chance.randint(1, 3), chance.randint(1, 3), chance.randint(1, 5)]
    x1, x2 = plain(full, dtype), plain(full, dtype)
    return Case([x1, x2], {"p": p}, _distance(x1.double() - x2.double(), p).to(dtype), bound=4)


@kernel_sample("Pdist")
def pdist(chance: random.Random) -> Case:
    dtype, p = chance.choice((torch.float32, torch.float16)), chance.choice((0.0, 1.0, 2.0, 3.0, -1.0))
    x = plain([chance.randint(2, 5), chance.randint(1, 5)], dtype)
    one, other = np.triu_indices(len(x), 1)
    return Case([x], {"p": p}, _distance(x[one].double() - x[other].double(), p).to(dtype), bound=4)


@kernel_sample("FFT")
def fft(chance: random.Random) -> Case:
    x = plain([2, chance.randint(1, 9)]) + 1j * plain([1])
    return Case([x], {}, torch.from_numpy(np.fft.fft(x.cdouble().numpy())).cfloat(), bound=8)


@kernel_sample("IFFT")
def inverse_fft(chance: random.Random) -> Case:
    x = plain([2, chance.randint(1, 9)]) + 1j * plain([1])
    return Case([x], {}, torch.from_numpy(np.fft.ifft(x.cdouble().numpy())).cfloat(), bound=8)


@kernel_sample("RFFT")
def real_fft(chance: random.Random) -> Case:
    x = plain([2, chance.randint(2, 9)])
    return Case([x, sizes([x.size(1)])], {}, torch.from_numpy(np.fft.rfft(x.double().numpy())).cfloat(), bound=8)


@kernel_sample("IRFFT")
def inverse_real_fft(chance: random.Random) -> Case:
    x, length = plain([2, 5]) + 1j * plain([2, 5]), chance.choice((8, 9))
    return Case([x, sizes([length])], {}, torch.from_numpy(np.fft.irfft(x.cdouble().numpy(), length)).float(), bound=8)
