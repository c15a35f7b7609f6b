"""Linears with calibrated scales that read one input and store their weights as one."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from graph_quant.nn.static_w8a8 import StaticW8A8Linear
from torch import Tensor, nn


class MergedStaticWeights(nn.Module):
    """The weights of several ``StaticW8A8Linear`` whose input is quantised alike.

    Args:
        weight: int8 (n, k), the rows of all linears.
        multiplier: The inverse activation scale, (k,): fused norms read one for each channel.
        zero_point: The activation's zero point, (k,).
        scale: float32 (n,).
        bias: int32 (n,).
    """

    def __init__(self, weight: Tensor, multiplier: Tensor, zero_point: Tensor, scale: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.weight: Tensor
        self.multiplier: Tensor
        self.zero_point: Tensor
        self.scale: Tensor
        self.bias: Tensor
        tensors = {"weight": weight, "multiplier": multiplier, "zero_point": zero_point, "scale": scale, "bias": bias}
        for name, tensor in tensors.items():
            self.register_buffer(name, tensor)


class MergedStaticLinear(StaticW8A8Linear):
    """A linear whose weights are rows of ``MergedStaticWeights``; everything else is as in ``StaticW8A8Linear``.

    Args:
        merged: The weights of all linears.
        start: Its first row.
        end: The row after its last one.
    """

    def __init__(self, merged: MergedStaticWeights, start: int, end: int) -> None:
        nn.Module.__init__(self)
        self.merged = merged
        self.start = start
        self.end = end

    @property
    def weight(self) -> Tensor:  # type: ignore[override]
        """Its rows of the merged weight, transposed, without a copy."""
        return self.merged.weight[self.start : self.end].t()

    @property
    def multiplier(self) -> Tensor:  # type: ignore[override]
        """The inverse activation scale, which all linears share."""
        return self.merged.multiplier

    @property
    def zero_point(self) -> Tensor:  # type: ignore[override]
        """The activation's zero point, which all linears share."""
        return self.merged.zero_point

    @property
    def scale(self) -> Tensor:  # type: ignore[override]
        """The scales of its rows, without a copy."""
        return self.merged.scale[self.start : self.end]

    @property
    def bias(self) -> Tensor:  # type: ignore[override]
        """The bias of its rows, without a copy."""
        return self.merged.bias[self.start : self.end]


def can_merge_static(linears: Sequence[StaticW8A8Linear]) -> bool:
    """Whether all have one input size and device, and quantise their input alike."""
    first = linears[0]
    return all(
        linear.weight.size(0) == first.weight.size(0)
        and linear.weight.device == first.weight.device
        and _is_same(linear.multiplier, first.multiplier)
        and _is_same(linear.zero_point, first.zero_point)
        for linear in linears[1:]
    )


def merge_static(linears: Sequence[StaticW8A8Linear]) -> MergedStaticWeights:
    """The merged weights of linears that ``can_merge_static`` accepts."""
    channels = linears[0].weight.size(0)
    return MergedStaticWeights(
        torch.cat([linear.weight.t() for linear in linears]),
        linears[0].multiplier.expand(channels).contiguous(),
        linears[0].zero_point.expand(channels).contiguous(),
        torch.cat([linear.scale for linear in linears]),
        torch.cat([linear.bias for linear in linears]),
    )


def _is_same(one: Tensor, other: Tensor) -> bool:
    return one.dtype == other.dtype and torch.equal(one, other)
