"""npu_prefetch: prefetches a weight into the L2 cache. It changes no value."""

from __future__ import annotations

from graph_quant.ge import kernel
from torch import Tensor


def prefetch(x: Tensor) -> tuple[()]:  # noqa: ARG001
    """Does nothing: the host manages its own caches."""
    return ()


@kernel("Cmo", flops=0)
def cmo(src: Tensor, *, max_size: int, type_: int = 6, offset: int = 0) -> tuple[()]:  # noqa: ARG001
    return ()
