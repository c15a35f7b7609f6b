"""Symmetric integer weights, with a scale for each output channel or for each group of its input channels.

A weight is (n, k) as in nn.Linear, or (experts, n, k); scales are (…, n), or (…, n, groups).
"""

from __future__ import annotations

import torch
from graph_quant import int4, quant_params
from graph_quant.destination import INT4, Destination
from torch import Tensor


def channel_scales(weight: Tensor, destination: Destination) -> Tensor:
    """Return the scale of each output channel, which maps its absmax to the largest integer; 1 for zero channels."""
    largest = weight.float().abs().amax(-1)
    return torch.where(largest > 0, largest / destination.high, torch.ones_like(largest))


def group_scales(weight: Tensor, length: int, destination: Destination) -> Tensor:
    """Return the scale of each group of ``length`` input channels; the last group may be shorter."""
    return torch.stack([channel_scales(part, destination) for part in weight.split(length, -1)], -1)


def to_integers(weight: Tensor, scales: Tensor, destination: Destination, length: int | None = None) -> Tensor:
    """Return int8 elements, symmetric about zero: the lowest integer of the destination is unused.

    ``scales`` belong to groups of ``length`` input channels, or to whole channels.
    """
    divisor = scales.unsqueeze(-1)
    if length is not None:
        divisor = scales.repeat_interleave(length, -1)[..., : weight.size(-1)]
    return (weight.float() / divisor).round().clamp(-destination.high, destination.high).to(torch.int8)


def round_to_packed(scales: Tensor) -> Tensor:
    """Round ``scales`` to the 19 bits that a packed parameter holds.

    Weights rounded to such scales lose nothing when npu_trans_quant_param drops the other bits.
    """
    return quant_params.decode(quant_params.encode(scales))[0]


def round_to_dtype(scales: Tensor, dtype: torch.dtype) -> Tensor:
    """Round ``scales`` to ``dtype``, at least its smallest positive number, because weights are divided by them."""
    limits = torch.finfo(dtype)
    return scales.to(dtype).clamp(min=limits.smallest_normal * limits.eps, max=limits.max)


def columns(integers: Tensor, destination: Destination) -> Tensor:
    """Return elements (…, n, k) in the layout of the kernels: (…, k, n), int4 as int32 (…, k, n/8)."""
    transposed = integers.mT.contiguous()
    return int4.pack(transposed) if destination is INT4 else transposed


def smoothing(activation: Tensor, weight: Tensor, strength: float) -> Tensor:
    """Return SmoothQuant's smoothing scale, by which each input channel is multiplied.

    ``activation`` and ``weight`` hold the absmax of each channel. ``strength`` is SmoothQuant's alpha: 1 moves all
    outliers of the activations into the weights, 0 does the reverse.
    """
    scale = weight.pow(1 - strength) / activation.pow(strength)
    usable = (activation > 0) & (weight > 0) & scale.isfinite()
    return torch.where(usable, scale, torch.ones_like(scale))
