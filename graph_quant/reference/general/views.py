"""npu_reshape, npu_slice, npu_pad, npu_broadcast and npu_indexing."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional


def reshape(input: Tensor, shape: Sequence[int]) -> Tensor:  # noqa: A002
    """The same elements in the same order."""
    return input.reshape(tuple(shape))


def cut(input: Tensor, offsets: Sequence[int], size: Sequence[int]) -> Tensor:  # noqa: A002
    """From each offset so many elements."""
    for dim, (start, length) in enumerate(zip(offsets, size, strict=True)):
        input = input.narrow(dim, start, length)  # noqa: A001
    return input


def pad(input: Tensor, paddings: Sequence[int]) -> Tensor:  # noqa: A002
    """Zeros before and after, beginning with the first dimension; those that are not told of are as they are."""
    told = [*paddings, *[0] * (2 * input.dim() - len(paddings))]
    # PyTorch begins with the last dimension.
    pairs = [told[2 * dim : 2 * dim + 2] for dim in reversed(range(input.dim()))]
    return functional.pad(input, [count for pair in pairs for count in pair])


def broadcast(input: Tensor, size: Sequence[int]) -> Tensor:  # noqa: A002
    """Repeated along sizes of one."""
    return input.expand(tuple(size))


def indexing(input: Tensor, ranges: tuple[range, ...]) -> Tensor:  # noqa: A002
    """Of each dimension the elements of a range."""
    for dim, chosen in enumerate(ranges):
        input = input.index_select(dim, torch.tensor(chosen, dtype=torch.int64, device=input.device))  # noqa: A001
    return input
