"""npu_prefetch: a weight is brought near the cores while something else is computed. No value changes by it."""

from __future__ import annotations

from graph_quant.ge import kernel
from torch import Tensor


def prefetch(x: Tensor) -> tuple[()]:  # noqa: ARG001
    """Nothing: the memory of a host has caches of its own."""
    return ()


@kernel("Cmo", flops=0)
def cmo(src: Tensor, *, max_size: int, type_: int = 6, offset: int = 0) -> tuple[()]:  # noqa: ARG001
    return ()
