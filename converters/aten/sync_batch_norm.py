"""Meta functions of the two gradients of SyncBatchNorm, which PyTorch has for CUDA alone.

Without them a compiler runs the device's kernels on fake data to infer the shapes, and the process aborts.
"""

from __future__ import annotations

import torch
from torch import Tensor

_library = torch.library.Library("aten", "IMPL")


def _elements(
    grad_out: Tensor,
    x: Tensor,
    mean: Tensor,  # noqa: ARG001
    invstd: Tensor,  # noqa: ARG001
    weight: Tensor | None,  # noqa: ARG001
    sum_dy: Tensor,  # noqa: ARG001
    sum_dy_xmu: Tensor,  # noqa: ARG001
    count: Tensor,  # noqa: ARG001
) -> Tensor:
    return grad_out.new_empty(x.shape)


def _reduced(
    grad_out: Tensor,  # noqa: ARG001
    x: Tensor,
    mean: Tensor,
    invstd: Tensor,  # noqa: ARG001
    weight: Tensor | None,
    input_g: bool,
    weight_g: bool,
    bias_g: bool,
) -> tuple[Tensor | None, ...]:
    requested = (input_g, input_g, weight_g, bias_g)
    like = (mean, mean, weight if weight is not None else mean, weight if weight is not None else mean)
    pairs = zip(requested, like, strict=True)
    return tuple(template.new_empty((x.size(1),)) if wanted else None for wanted, template in pairs)


for _name, _meta in (("batch_norm_backward_elemt", _elements), ("batch_norm_backward_reduce", _reduced)):
    if not torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{_name}", "Meta"):
        _library.impl(_name, _meta, "Meta")
