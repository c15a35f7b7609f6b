"""Padding. Paddings are pairs (before, after) for each dimension, first to last."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from ...ge import Sizes, kernel

_MODES = {"reflect": "reflect", "edge": "replicate", "REFLECT": "reflect", "symmetric": "symmetric"}


def _pairs(paddings: Sizes, contiguous: bool) -> list[tuple[int, int]]:
    sizes = paddings.ints
    if contiguous:
        return list(zip(sizes[::2], sizes[1::2], strict=True))
    half = len(sizes) // 2
    return list(zip(sizes[:half], sizes[half:], strict=True))


def _last_first(pairs: list[tuple[int, int]]) -> list[int]:
    """Return paddings in torch's order, from the last dimension backwards."""
    return [size for pair in reversed(pairs) for size in pair]


def _without_leading_zeros(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    first = next((dim for dim, pair in enumerate(pairs) if pair != (0, 0)), len(pairs))
    return pairs[first:]


def _pad_by_copy(x: Tensor, pairs: list[tuple[int, int]], mode: str) -> Tensor:
    """Pad by copying elements. Torch needs two leading dimensions for that, of which the first may be 0."""
    padded = _without_leading_zeros(pairs)
    leading = x.dim() - len(padded)
    batch = x.reshape([math.prod(x.shape[:leading]), 1, *x.shape[leading:]])
    result = functional.pad(batch, _last_first(padded), mode)
    return result.reshape([*x.shape[:leading], *result.shape[2:]])


@kernel("PadV3", flops=0)
def pad(
    x: Tensor,
    paddings: Sizes,
    constant_values: Tensor | None = None,
    *,
    mode: str = "constant",
    paddings_contiguous: bool = True,
) -> Tensor:
    pairs = _pairs(paddings, paddings_contiguous)
    if mode != "constant":
        return _pad_by_copy(x, pairs, _MODES[mode])
    blank = torch.zeros((), dtype=x.dtype) if constant_values is None else constant_values.reshape(()).to(x.dtype)
    if x.dtype == torch.bool:
        return pad(x.to(torch.uint8), paddings, blank, paddings_contiguous=paddings_contiguous).bool()
    inside = functional.pad(torch.ones(x.shape, dtype=torch.bool), _last_first(pairs))
    return torch.where(inside, functional.pad(x, _last_first(pairs)), blank)


@kernel("Pad", flops=0)
def pad_zeros(x: Tensor, paddings: Sizes) -> Tensor:
    return functional.pad(x, _last_first(_pairs(paddings, True)))


@kernel("MirrorPad")
def mirror_pad(x: Tensor, paddings: Sizes, *, mode: str) -> Tensor:
    return _pad_by_copy(x, _pairs(paddings, True), _MODES[mode])


@kernel("PadV3Grad")
def pad_grad(x: Tensor, paddings: Sizes, *, mode: str = "reflect", paddings_contiguous: bool = True) -> Tensor:
    padded = _without_leading_zeros(_pairs(paddings, paddings_contiguous))
    leading = x.dim() - len(padded)
    inner = [size - sum(pair) for size, pair in zip(x.shape[leading:], padded, strict=True)]
    if mode == "reflect" and any(max(pair) >= size for pair, size in zip(padded, inner, strict=True)):
        raise ValueError(f"reflected paddings {padded} must be smaller than the dimensions {inner} that they pad")
    batch = x.reshape([math.prod(x.shape[:leading]), 1, *x.shape[leading:]])
    shape_only = torch.zeros([*batch.shape[:2], *inner], dtype=x.dtype)
    backward = getattr(torch.ops.aten, f"{_GRADIENTS[mode]}_pad{len(padded)}d_backward")
    result = backward(batch, shape_only, _last_first(padded))
    return result.reshape([*x.shape[:leading], *inner])  # type: ignore[no-any-return]


_GRADIENTS = {"reflect": "reflection", "edge": "replication"}
