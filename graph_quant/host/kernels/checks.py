"""Checks of data and shapes that guard native code without checks of its own."""

from __future__ import annotations

import torch
from torch import Tensor

from ...dispatcher import step


def _check_indices(what: str, indices: Tensor, size: int, ignored: int) -> Tensor:
    wrong = indices[((indices < 0) | (indices >= size)) & (indices != ignored)]
    if wrong.numel():
        raise IndexError(f"{what} must lie in [0, {size}), got {wrong[0].item()}")
    return indices.clone()


def _fake(what: str, indices: Tensor, size: int, ignored: int) -> Tensor:  # noqa: ARG001
    return torch.empty_like(indices)


# The result is used, so that no compiler drops or reorders the check.
_step = step("check_indices(str what, Tensor indices, SymInt size, int ignored) -> Tensor", _check_indices, _fake)


def check_indices(what: str, indices: Tensor, size: int, ignored: int = -1) -> Tensor:
    """Return ``indices``; raise if one lies outside [0, size) and is not ``ignored``."""
    return _step(what, indices, size, ignored)  # type: ignore[no-any-return]


def check_same_shape(**tensors: Tensor) -> None:
    """Raise if the shapes of tensors differ."""
    (first, expected), *others = tensors.items()
    for name, tensor in others:
        if tensor.shape != expected.shape:
            got = f"{tuple(tensor.shape)} and {tuple(expected.shape)}"
            raise ValueError(f"{name} and {first} must have the same shape, got {got}")


def check_numel(count: int, what: str, **tensors: Tensor | None) -> None:
    """Raise if a vector does not have one element for each of ``count`` rows, channels or the like."""
    for name, tensor in tensors.items():
        if tensor is not None and tensor.numel() != count:
            raise ValueError(f"{name} must have one element for each of {count} {what}, got {tensor.numel()}")
