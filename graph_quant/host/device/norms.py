"""A norm of groups without weights has weights of 1 and 0, as in a graph: the CPU's kernel rounds otherwise without."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from .kernels import Kernel

NAME = "aten::native_group_norm"


def with_weights(kernel: Kernel) -> Kernel:
    """``kernel``, which is always given both."""

    def serve(x: Tensor, weight: Tensor | None, bias: Tensor | None, batch: int, channels: int, *rest: Any) -> Any:
        if weight is None:
            weight = x.new_ones(channels)
        if bias is None:
            bias = weight.new_zeros(channels)
        return kernel(x, weight, bias, batch, channels, *rest)

    return serve
