"""Weights as integers: symmetric, one float32 scale for each output channel.

A weight is (n, k) as in nn.Linear, or (experts, n, k); scales are (n,) or (experts, n).
"""

from __future__ import annotations

import torch
from graph_quant import quant_params
from graph_quant.destination import Destination
from torch import Tensor


def channel_scales(weight: Tensor, destination: Destination) -> Tensor:
    """The scale of each output channel: its largest magnitude is the largest integer. 1 where all is zero."""
    largest = weight.float().abs().amax(-1)
    return torch.where(largest > 0, largest / destination.high, torch.ones_like(largest))


def to_integers(weight: Tensor, scales: Tensor, destination: Destination) -> Tensor:
    """int8 elements, symmetric about zero: the lowest integer of the destination is left unused."""
    return (weight.float() / scales.unsqueeze(-1)).round().clamp(-destination.high, destination.high).to(torch.int8)


def packable(scales: Tensor) -> Tensor:
    """``scales`` on the grid of 19 bits that a packed parameter holds.

    Weights rounded to such scales lose nothing when npu_trans_quant_param drops the other bits.
    """
    return quant_params.decode(quant_params.encode(scales))[0]


def smoothing(activation: Tensor, weight: Tensor, strength: float) -> Tensor:
    """What to multiply an input channel with so that activations and weights share its difficulty.

    ``activation`` and ``weight`` hold the largest magnitude of each channel, ``strength`` is SmoothQuant's alpha: 1
    evens out the activations and leaves all of the outliers to the weights, 0 does the reverse.
    """
    factor = weight.pow(1 - strength) / activation.pow(strength)
    usable = (activation > 0) & (weight > 0) & factor.isfinite()
    return torch.where(usable, factor, torch.ones_like(factor))
