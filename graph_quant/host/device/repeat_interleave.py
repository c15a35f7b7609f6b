"""repeat_interleave by a tensor in half precision: its gradient is summed in float32, as RepeatInterleaveGrad does.

PyTorch's own gradient is that of index_select, which rounds after each term where single elements are repeated.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...reference.half_precision import HALF_DTYPES
from .kernels import Kernel

NAME = "aten::repeat_interleave.self_Tensor"


def sum_gradient_in_float32(kernel: Kernel) -> Kernel:
    """Convert half-precision inputs that require a gradient to float32, and the result back."""

    def wrapper(x: Tensor, *args: Any, **kwargs: Any) -> Any:
        if x.dtype in HALF_DTYPES and x.requires_grad and torch.is_grad_enabled():
            return torch.ops.aten.repeat_interleave.self_Tensor(x.float(), *args, **kwargs).to(x.dtype)
        return kernel(x, *args, **kwargs)

    return wrapper
