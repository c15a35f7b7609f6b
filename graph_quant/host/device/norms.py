"""Norms without weight or bias: computed with ones and zeros, as in graphs, because the CPU rounds otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from ...reference.half_precision import upcast_half
from .kernels import Kernel


def _group_norm(_op: OpOverload, kernel: Kernel) -> Kernel:
    """Compute rstd from the variance in the input's dtype, because GE's node gives the variance alone."""

    def wrapper(
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
        variance = torch.var(upcast_half(x).reshape(batch, groups, -1), -1, correction=0)
        return y, mean, torch.rsqrt(variance.to(x.dtype) + eps)

    return wrapper


def _layer_norm(_op: OpOverload, kernel: Kernel) -> Kernel:
    def wrapper(x: Tensor, shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float) -> Any:
        if weight is None and bias is not None:
            weight = torch.ones_like(bias)
        return kernel(x, shape, weight, bias, eps)

    return wrapper


WRAPPERS = {"aten::native_group_norm": _group_norm, "aten::native_layer_norm": _layer_norm}
