"""avg_pool3d in half precision: computed in float32 and rounded once, as in graphs. The CPU has no kernel for it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from ...reference.half_precision import HALF_DTYPES
from .kernels import Kernel


def _in_float32(_op: OpOverload, kernel: Kernel) -> Kernel:
    def wrapper(*tensors_and_settings: Any, **out: Tensor) -> Any:
        dtype = tensors_and_settings[0].dtype
        if dtype not in HALF_DTYPES:
            return kernel(*tensors_and_settings, **out)
        wide = [value.float() if isinstance(value, Tensor) else value for value in tensors_and_settings]
        if not out:
            return kernel(*wide).to(dtype)
        ((name, result),) = out.items()
        computed = kernel(*wide, **{name: torch.empty(0, device=result.device)})
        return result.resize_(computed.size()).copy_(computed)

    return wrapper


WRAPPERS = dict.fromkeys(
    (
        "aten::avg_pool3d",
        "aten::avg_pool3d.out",
        "aten::avg_pool3d_backward",
        "aten::avg_pool3d_backward.grad_input",
    ),
    _in_float32,
)
