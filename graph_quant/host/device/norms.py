"""Norms without weights have weights of 1 and 0, as in a graph: the CPU's kernels round otherwise without."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .kernels import Kernel


def _of_groups(kernel: Kernel) -> Kernel:
    """The root beside the result is that of the variance, which is all that GE's node gives."""

    def serve(
        x: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        batch: int,
        channels: int,
        size: int,
        groups: int,
        eps: float,
    ) -> Any:
        if weight is None:
            weight = x.new_ones(channels)
        if bias is None:
            bias = weight.new_zeros(channels)
        y, mean, _ = kernel(x, weight, bias, batch, channels, size, groups, eps)
        variance = torch.var(x.float().reshape(batch, groups, -1), -1, correction=0)
        return y, mean, torch.rsqrt(variance.to(x.dtype) + eps)

    return serve


def _of_layers(kernel: Kernel) -> Kernel:
    def serve(x: Tensor, shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float) -> Any:
        if weight is None and bias is not None:
            weight = torch.ones_like(bias)
        return kernel(x, shape, weight, bias, eps)

    return serve


WITH_WEIGHTS: dict[str, Callable[[Kernel], Kernel]] = {
    "aten::native_group_norm": _of_groups,
    "aten::native_layer_norm": _of_layers,
}
