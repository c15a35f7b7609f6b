"""ATen operators that torch_npu has and PyTorch has no CPU kernel for: computed by others, or refused by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from ...reference.half_precision import HALF_DTYPES
from ...reference.half_products import multiply
from ..alias import as_cpu, to_npu
from .arguments import map_results, mixed_devices_error
from .kernels import Kernel


def _mm(x1: Tensor, x2: Tensor, out_dtype: torch.dtype) -> Tensor:
    return _product(x1, x2, out_dtype).to(out_dtype)


def _addmm(x: Tensor, x1: Tensor, x2: Tensor, out_dtype: torch.dtype, *, beta: float = 1, alpha: float = 1) -> Tensor:
    if x.dtype not in (out_dtype, x1.dtype):
        raise RuntimeError(f"self must be of out_dtype or of the dtype of the matrices, got {x.dtype}")
    total = _product(x1, x2, out_dtype) * alpha
    return (total if beta == 0 else total + x.to(total.dtype) * beta).to(out_dtype)


def _product(x1: Tensor, x2: Tensor, out_dtype: torch.dtype) -> Tensor:
    """Multiply half precision in float32, where the products are exact; the caller rounds."""
    if x1.dtype != x2.dtype:
        raise RuntimeError(f"the matrices must be of one dtype, got {x1.dtype} and {x2.dtype}")
    if out_dtype != x1.dtype and not (out_dtype == torch.float32 and x1.dtype in HALF_DTYPES):
        raise RuntimeError(f"out_dtype must be the inputs' own, or float32 for halves, got {out_dtype} for {x1.dtype}")
    return multiply(x1, x2) if x1.dtype in HALF_DTYPES else torch.matmul(x1, x2)


def _conv_depthwise2d(
    x: Tensor,
    weight: Tensor,
    _kernel_size: Sequence[int],
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> Tensor:
    return functional.conv2d(x, weight, bias, stride, padding, dilation, groups=x.size(1))  # type: ignore[arg-type]


def _masked_scale(x: Tensor, mask: Tensor, scale: float) -> Tensor:
    wide = x.float() if x.dtype in HALF_DTYPES else x
    return (wide * mask * scale).to(x.dtype)


def _matmul_backward(grad: Tensor, x1: Tensor, x2: Tensor, mask: Sequence[bool]) -> tuple[Tensor | None, ...]:
    """Treat a vector as a row on the left and as a column on the right; the gradient lacks that dimension."""
    left = x1.unsqueeze(0) if x1.dim() == 1 else x1
    right = x2.unsqueeze(1) if x2.dim() == 1 else x2
    grad = grad.unsqueeze(-1) if x2.dim() == 1 else grad
    grad = grad.unsqueeze(-2) if x1.dim() == 1 else grad
    first = (grad @ right.mH).sum_to_size(left.shape).reshape(x1.shape) if mask[0] else None
    second = (left.mH @ grad).sum_to_size(right.shape).reshape(x2.shape) if mask[1] else None
    return first, second


_PRODUCTS: dict[str, Callable[..., Any]] = {"mm": _mm, "bmm": _mm, "addmm": _addmm, "baddbmm": _addmm}
_ON_CPU: dict[str, Callable[..., Any]] = {
    **{f"aten::{name}.dtype": compute for name, compute in _PRODUCTS.items()},
    **{f"aten::{name}.dtype_out": compute for name, compute in _PRODUCTS.items()},
    "aten::_conv_depthwise2d": _conv_depthwise2d,
    "aten::_conv_depthwise2d.out": _conv_depthwise2d,
    "aten::_masked_scale": _masked_scale,
    "aten::matmul_backward": _matmul_backward,
}


def kernel_for(name: str) -> Kernel:
    """Return the kernel of an operator that the CPU lacks."""
    compute = _ON_CPU.get(name)
    return _refusal(name) if compute is None else _cpu_kernel(name, compute)


def _cpu_kernel(name: str, compute: Callable[..., Any]) -> Kernel:
    def alias_of(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        if value.is_cpu and value.dim():
            raise mixed_devices_error(name)
        return value if value.is_cpu else as_cpu(value)

    def kernel(*args: Any, out: Tensor | None = None, **kwargs: Any) -> Any:
        try:
            results = compute(*map(alias_of, args), **kwargs)
        except RuntimeError as error:
            raise RuntimeError(f"{name}: {error}") from None
        if out is None:
            return map_results(results, to_npu)
        out.resize_(results.size())
        as_cpu(out).copy_(results)
        return out

    return kernel


def _refusal(name: str) -> Kernel:
    def refuse(*_args: Any, **_kwargs: Any) -> Any:
        raise NotImplementedError(
            f"{name} cannot run on the host NPU: PyTorch has no CPU kernel for it, and it needs an NPU with CANN"
        )

    return refuse
