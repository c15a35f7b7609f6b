"""repeat_interleave by a tensor in half precision: its gradient is summed in float32, as RepeatInterleaveGrad does.

PyTorch's own is the gradient of index_select, which rounds after each term where single numbers are repeated.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..half_precision import HALF_DTYPES
from .kernels import Kernel

NAME = "aten::repeat_interleave.self_Tensor"


def summed_in_float32(inner: Kernel) -> Kernel:
    """``inner``, of the float32 numbers of what asks for a gradient, rounded back."""

    def kernel(x: Tensor, *args: Any, **kwargs: Any) -> Any:
        if x.dtype in HALF_DTYPES and x.requires_grad and torch.is_grad_enabled():
            return torch.ops.aten.repeat_interleave.self_Tensor(x.float(), *args, **kwargs).to(x.dtype)
        return inner(x, *args, **kwargs)

    return kernel
