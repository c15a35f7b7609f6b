"""What has to hold of data and shapes before native code that does not look may see them."""

from __future__ import annotations

import torch
from torch import Tensor

from ...dispatcher import step


def _check(what: str, indices: Tensor, size: int, ignored: int) -> Tensor:
    wrong = indices[((indices < 0) | (indices >= size)) & (indices != ignored)]
    if wrong.numel():
        raise IndexError(f"{what} must lie in [0, {size}), got {wrong[0].item()}")
    return indices.clone()


def _fake(what: str, indices: Tensor, size: int, ignored: int) -> Tensor:  # noqa: ARG001
    return torch.empty_like(indices)


# Its result is used, so that no compiler drops or reorders the check.
_step = step("indices_within(str what, Tensor indices, SymInt size, int ignored) -> Tensor", _check, _fake)


def indices_within(what: str, indices: Tensor, size: int, ignored: int = -1) -> Tensor:
    """``indices``, refused where one lies outside [0, size) and is not ``ignored``."""
    return _step(what, indices, size, ignored)  # type: ignore[no-any-return]


def same_shape(**tensors: Tensor) -> None:
    """Refuse tensors whose shapes differ."""
    (first, expected), *others = tensors.items()
    for name, tensor in others:
        if tensor.shape != expected.shape:
            got = f"{tuple(tensor.shape)} and {tuple(expected.shape)}"
            raise ValueError(f"{name} and {first} must have the same shape, got {got}")


def one_each(count: int, what: str, **tensors: Tensor | None) -> None:
    """Refuse vectors that do not have one element for each of ``count`` rows, channels and the like."""
    for name, tensor in tensors.items():
        if tensor is not None and tensor.numel() != count:
            raise ValueError(f"{name} must have one element for each of {count} {what}, got {tensor.numel()}")
