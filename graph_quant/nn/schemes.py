"""Quantised weights in the layouts of the kernels, for linears and experts. A weight is (…, n, k)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from graph_quant.destination import INT4, INT8, Destination
from graph_quant.nn import weights
from torch import Tensor

# The int8 by int4 kernel splits an int8 row into 16 * high + low + 8; the assist term compensates for the 8.
_SHIFT = 8
_SPLIT_UNIT, _DEEPEST_SPLIT = 64, 18432


class WeightOnly(NamedTuple):
    """``elements`` (…, k, n), int4 as int32 (…, k, n/8); ``scale`` (…, n) or (…, groups, n) in the dtype of x."""

    elements: Tensor
    scale: Tensor


class Split(NamedTuple):
    """int4 weights for int8 rows, which the kernel splits into two int4 halves.

    ``elements`` int32 (…, k, n/8); ``scale`` int64 (…, groups, n), the bits of float32; ``assist`` float32 (…, n),
    which compensates for the offset of the halves.
    """

    elements: Tensor
    scale: Tensor
    assist: Tensor


def weight_only(module: str, weight: Tensor, destination: Destination, group_size: int | None) -> WeightOnly:
    """Quantise a weight that is dequantised at run time. Scales are rounded to its dtype before the elements are."""
    length = resolve_group_size(module, weight, group_size)
    check_packable(module, weight, destination)
    values = weight.detach().float()
    if length is None:
        scale = weights.round_to_dtype(weights.channel_scales(values, destination), weight.dtype)
    else:
        scale = weights.round_to_dtype(weights.group_scales(values, length, destination), weight.dtype)
    integers = weights.to_integers(values, scale.float(), destination, length)
    return WeightOnly(weights.columns(integers, destination), scale if length is None else scale.mT.contiguous())


def split(module: str, weight: Tensor, group_size: int | None) -> Split:
    """Quantise ``weight`` to int4 for int8 rows."""
    check_split(module, weight)
    depth = weight.size(-1)
    length = resolve_group_size(module, weight, group_size) or depth
    if depth % length:
        raise ValueError(f"{module}: group_size must divide the input channels, got {length} and {depth}")
    values = weight.detach().float()
    # With one group and many rows the kernel truncates scales to bfloat16, else to 19 bits: they are rounded first.
    scale = weights.group_scales(values, length, INT4)
    scale = weights.round_to_dtype(scale, torch.bfloat16).float() if length == depth else weights.round_to_packed(scale)
    return split_integers(weights.to_integers(values, scale, INT4, length), scale)


def check_split(module: str, weight: Tensor) -> None:
    """Raise if the int8 by int4 kernel does not support the sizes."""
    depth = weight.size(-1)
    if depth % _SPLIT_UNIT or depth > _DEEPEST_SPLIT:
        raise ValueError(
            f"{module}: input channels must be a multiple of {_SPLIT_UNIT} and at most {_DEEPEST_SPLIT}, got {depth}"
        )
    check_packable(module, weight, INT4)


def split_integers(integers: Tensor, scale: Tensor) -> Split:
    """Return int4 elements (…, n, k) and scales (…, n, groups) in the layout for int8 rows."""
    groups = scale.size(-1)
    # A few rows at a time: the wider integers of a large weight would take several times its memory.
    sums = torch.cat(
        [part.unflatten(-1, (groups, -1)).sum(-1, dtype=torch.int32) for part in integers.split(256, -2)], -2
    )
    bits = scale.mT.contiguous().view(torch.int32).to(torch.int64) & 0xFFFFFFFF
    return Split(weights.columns(integers, INT4), bits, (_SHIFT * (sums.double() * scale.double()).sum(-1)).float())


def int8_columns(weight: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return ``weight`` as int8 (…, k, n), and column scales (…, n), rounded to ``dtype`` before the elements are."""
    values = weight.detach().float()
    scale = weights.round_to_dtype(weights.channel_scales(values, INT8), dtype)
    return weights.columns(weights.to_integers(values, scale.float(), INT8), INT8), scale


def resolve_group_size(module: str, weight: Tensor, group_size: int | None) -> int | None:
    """Return how many input channels share a scale; None if all do."""
    if group_size is not None and group_size < 1:
        raise ValueError(f"{module}: group_size must be None or positive, got {group_size}")
    return None if group_size is None or group_size >= weight.size(-1) else group_size


def check_packable(module: str, weight: Tensor, destination: Destination) -> None:
    """Raise if int4 cannot be packed along the output channels."""
    if weight.size(-2) % destination.packing:
        raise ValueError(
            f"{module}: output channels must be a multiple of {destination.packing}, got {weight.size(-2)}"
        )
