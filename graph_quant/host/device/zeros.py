"""Zeroing of large tensors: pages are given back to the machine instead of being written.

Engines allocate and zero most of a device for their caches, and use little of it.
"""

import math
from ctypes import c_size_t, c_void_p
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from ..alias import NPU
from ..recording import runtime
from .kernels import Kernel, Wrapper

_LARGE = 64 << 20  # bytes; the runtime writes smaller blocks, as a kernel does


def zero_(_: OpOverload, kernel: Kernel) -> Kernel:
    """Zero a large tensor that fills its memory through the runtime."""

    def zero(self: Tensor) -> Any:
        return _zero_pages(self) if _is_large(self) else kernel(self)

    return zero


def fill_(_: OpOverload, kernel: Kernel) -> Kernel:
    """Fill with zero as ``zero_`` does. Negative zero has other bits."""

    def fill(self: Tensor, value: Any) -> Any:
        is_zero = isinstance(value, (bool, int, float)) and value == 0 and math.copysign(1, value) > 0
        return _zero_pages(self) if is_zero and _is_large(self) else kernel(self, value)

    return fill


def zeros(_: OpOverload, kernel: Kernel) -> Kernel:
    """Allocate, then zero: a large result is not computed on the CPU first."""

    def make_zeros(size: Any, **options: Any) -> Any:
        dtype = options.get("dtype") or torch.get_default_dtype()
        is_plain = options.get("layout") in (None, torch.strided) and not options.get("pin_memory")
        if not is_plain or math.prod(size) * dtype.itemsize < _LARGE:
            return kernel(size, **options)
        return torch.empty(size, dtype=dtype, device=options.get("device") or NPU).zero_()

    return make_zeros


def _is_large(tensor: Tensor) -> bool:
    return tensor.nbytes >= _LARGE and tensor.is_contiguous()


def _zero_pages(tensor: Tensor) -> Tensor:
    runtime.host_zero(c_void_p(tensor.data_ptr()), c_size_t(tensor.nbytes))
    return tensor


WRAPPERS: dict[str, Wrapper] = {"aten::zero_": zero_, "aten::fill_.Scalar": fill_, "aten::zeros": zeros}
