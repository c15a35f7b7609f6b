"""Operators whose last bits PyTorch's CPU kernels let strides decide: computed here over contiguous memory.

A whole vector is computed by other instructions than a single element, and strides decide which elements stand in a
vector, and in which order sums are added. An NPU copies what has strides before it computes, and a graph has none.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from .arguments import as_meta
from .kernels import Kernel

_ELEMENTWISE = (
    "atan2 atanh celu cosh elu exp2 gelu mish pow.Scalar pow.Tensor_Scalar pow.Tensor_Tensor rsqrt sigmoid silu sinh"
    " softplus elu_backward gelu_backward"
)
_SUMS = "sum sum.dim_IntList mean mean.dim linalg_vector_norm logsumexp native_group_norm"
_IN_PLACE = "atan2_ atanh_ celu_ cosh_ elu_ exp2_ gelu_ mish_ pow_.Scalar pow_.Tensor rsqrt_ sigmoid_ silu_ sinh_"
_CONVOLUTIONS = "convolution convolution_overrideable convolution_backward convolution_backward_overrideable"
NAMES = frozenset(f"aten::{name}" for name in f"{_ELEMENTWISE} {_SUMS} {_CONVOLUTIONS}".split())
IN_PLACE = frozenset(f"aten::{name}" for name in _IN_PLACE.split())
_FLOATS = (torch.float32, torch.float16, torch.bfloat16)


def over_contiguous(op: OpOverload, kernel: Kernel) -> Kernel:
    """``kernel``, which has no tensor with strides to read; the result has the strides that it would have."""

    def serve(*args: Any, **kwargs: Any) -> Any:
        if not any([_has_strides(value) for value in args]):
            return kernel(*args, **kwargs)
        result = kernel(*map(_contiguous, args), **kwargs)
        if not isinstance(result, Tensor):
            return result
        stride = op(*map(as_meta, args), **kwargs).stride()
        if result.stride() == stride:
            return result
        return torch.empty_strided(result.size(), stride, dtype=result.dtype, device=result.device).copy_(result)

    return serve


def written_back(kernel: Kernel) -> Kernel:
    """``kernel``, which changes its first argument, over a copy of it where it has strides."""

    def serve(x: Tensor, *args: Any, **kwargs: Any) -> Any:
        if not any([_has_strides(value) for value in (x, *args)]):
            return kernel(x, *args, **kwargs)
        copied = x.clone(memory_format=torch.contiguous_format)
        return x.copy_(kernel(copied, *map(_contiguous, args), **kwargs))

    return serve


def _has_strides(value: Any) -> bool:
    return isinstance(value, Tensor) and not value.is_contiguous() and value.dtype in _FLOATS


def _contiguous(value: Any) -> Any:
    return value.contiguous() if _has_strides(value) else value
