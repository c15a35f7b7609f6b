"""Weights as integers: symmetric, with a scale for each output channel or for each stretch of its input channels.

A weight is (n, k) as in nn.Linear, or (experts, n, k); scales are (…, n), or (…, n, stretches) of k.
"""

from __future__ import annotations

import torch
from graph_quant import int4, quant_params
from graph_quant.destination import INT4, Destination
from torch import Tensor


def channel_scales(weight: Tensor, destination: Destination) -> Tensor:
    """The scale of each output channel: its largest magnitude is the largest integer. 1 where all is zero."""
    largest = weight.float().abs().amax(-1)
    return torch.where(largest > 0, largest / destination.high, torch.ones_like(largest))


def stretch_scales(weight: Tensor, length: int, destination: Destination) -> Tensor:
    """The scale of each stretch of ``length`` input channels; the last one may be shorter."""
    return torch.stack([channel_scales(part, destination) for part in weight.split(length, -1)], -1)


def to_integers(weight: Tensor, scales: Tensor, destination: Destination, length: int | None = None) -> Tensor:
    """int8 elements, symmetric about zero: the lowest integer of the destination is left unused.

    ``scales`` are those of stretches of ``length``, or of whole channels.
    """
    each = scales.unsqueeze(-1)
    if length is not None:
        each = scales.repeat_interleave(length, -1)[..., : weight.size(-1)]
    return (weight.float() / each).round().clamp(-destination.high, destination.high).to(torch.int8)


def packable(scales: Tensor) -> Tensor:
    """``scales`` on the grid of 19 bits that a packed parameter holds.

    Weights rounded to such scales lose nothing when npu_trans_quant_param drops the other bits.
    """
    return quant_params.decode(quant_params.encode(scales))[0]


def representable(scales: Tensor, dtype: torch.dtype) -> Tensor:
    """``scales`` in ``dtype``, at least its smallest number: weights are divided by them."""
    limits = torch.finfo(dtype)
    return scales.to(dtype).clamp(min=limits.smallest_normal * limits.eps, max=limits.max)


def columns(integers: Tensor, destination: Destination) -> Tensor:
    """Elements (…, n, k) as kernels take them: (…, k, n), int4 as int32 (…, k, n/8)."""
    turned = integers.mT.contiguous()
    return int4.pack(turned) if destination is INT4 else turned


def smoothing(activation: Tensor, weight: Tensor, strength: float) -> Tensor:
    """What to multiply an input channel with so that activations and weights share its difficulty.

    ``activation`` and ``weight`` hold the largest magnitude of each channel, ``strength`` is SmoothQuant's alpha: 1
    evens out the activations and leaves all of the outliers to the weights, 0 does the reverse.
    """
    factor = weight.pow(1 - strength) / activation.pow(strength)
    usable = (activation > 0) & (weight > 0) & factor.isfinite()
    return torch.where(usable, factor, torch.ones_like(factor))
