"""npu_swiglu: ``swish(a) * b`` of the halves of a dimension.

Half precision is widened, gated as ``a / (1 + exp(-a)) * b`` and rounded once; the kernel of float32 takes another way,
``(1 / (1 + exp(-a))) * a * b``.
"""

from __future__ import annotations

import torch
from graph_quant.ge.kernels import kernel
from graph_quant.reference.activation.gates import exponential, swish
from torch import Tensor


def swiglu(x: Tensor, dim: int) -> Tensor:
    """The gate of ``x``, half as long in ``dim``."""
    swished, linear = x.chunk(2, dim) if x.size(dim) else (x, x)
    if x.dtype == torch.float32:
        return 1.0 / (exponential(-swished) + 1.0) * swished * linear
    return (swish(swished.float()) * linear.float()).to(x.dtype)


@kernel("SwiGlu", flops=5)
def swi_glu(x: Tensor, *, dim: int = -1) -> Tensor:
    return swiglu(x, dim)
