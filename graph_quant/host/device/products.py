"""Matrix products on npu tensors: large ones of half precision are computed in float32."""

from typing import Any

import torch
from torch import Tensor

from ..alias import as_cpu, to_npu
from ..halves import too_large
from .kernels import Kernel


def _mm(x1: Tensor, x2: Tensor) -> Tensor:
    return _product(x1, x2).to(x1.dtype)


def _addmm(x: Tensor, x1: Tensor, x2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    total = _product(x1, x2)
    total = total if alpha == 1 else total * alpha
    return (total if beta == 0 else total + (x if beta == 1 else x * beta)).to(x1.dtype)


def _product(x1: Tensor, x2: Tensor) -> Tensor:
    return torch.matmul(x1.float(), x2.float())


IN_FLOAT32: dict[str, Kernel] = {"aten::mm": _mm, "aten::bmm": _mm, "aten::addmm": _addmm, "aten::baddbmm": _addmm}


def product(name: str, inner: Kernel) -> Kernel:
    """The kernel of ``name``: ``inner``, except for large products of half precision."""
    compute = IN_FLOAT32[name]

    def kernel(*args: Any, **kwargs: Any) -> Any:
        if len(args) >= 2 and too_large(*args[-2:]):
            return to_npu(compute(*map(as_cpu, args), **kwargs))
        return inner(*args, **kwargs)

    return kernel
