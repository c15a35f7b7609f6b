"""npu_reshape, npu_slice, npu_pad, npu_broadcast and npu_indexing."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional


def reshape(input: Tensor, shape: Sequence[int]) -> Tensor:  # noqa: A002
    """``input`` with another shape."""
    return input.reshape(tuple(shape))


def slice_dims(input: Tensor, offsets: Sequence[int], size: Sequence[int]) -> Tensor:  # noqa: A002
    """``size`` elements from ``offsets`` on, in each dimension."""
    for dim, (start, length) in enumerate(zip(offsets, size, strict=True)):
        input = input.narrow(dim, start, length)  # noqa: A001
    return input


def pad(input: Tensor, paddings: Sequence[int]) -> Tensor:  # noqa: A002
    """Zero padding from the first dimension on; dimensions without an entry are not padded."""
    counts = [*paddings, *[0] * (2 * input.dim() - len(paddings))]
    # PyTorch starts with the last dimension.
    pairs = [counts[2 * dim : 2 * dim + 2] for dim in reversed(range(input.dim()))]
    return functional.pad(input, [count for pair in pairs for count in pair])


def broadcast(input: Tensor, size: Sequence[int]) -> Tensor:  # noqa: A002
    """``input`` expanded to ``size``."""
    return input.expand(tuple(size))


def indexing(input: Tensor, ranges: tuple[range, ...]) -> Tensor:  # noqa: A002
    """The elements of a range in each dimension."""
    for dim, indices in enumerate(ranges):
        input = input.index_select(dim, torch.tensor(indices, dtype=torch.int64, device=input.device))  # noqa: A001
    return input
