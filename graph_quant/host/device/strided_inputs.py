"""Operators of which PyTorch's CPU kernels let strides decide the last bits: computed here over contiguous memory.

A full vector is computed by other instructions than a single element, and strides decide which elements form a vector
and in which order sums are added. An NPU copies strided inputs before it computes, and a graph has no strides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
# With a strided out, PyTorch's CPU kernels write to other memory, or none.
_IGNORES_STRIDES_OF_OUT = "gelu.out avg_pool3d.out narrow_copy.out"
_FLOATS = (torch.float32, torch.float16, torch.bfloat16)


def _copy_inputs(op: OpOverload, kernel: Kernel) -> Kernel:
    """Run ``kernel`` on contiguous copies of strided inputs; the result has the strides that PyTorch infers."""

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if not any([_is_strided(value) for value in args]):
            return kernel(*args, **kwargs)
        result = kernel(*map(_make_contiguous, args), **kwargs)
        if not isinstance(result, Tensor):
            return result
        stride = op(*map(as_meta, args), **kwargs).stride()
        if result.stride() == stride:
            return result
        return torch.empty_strided(result.size(), stride, dtype=result.dtype, device=result.device).copy_(result)

    return wrapper


def _copy_back(_op: OpOverload, kernel: Kernel) -> Kernel:
    """Run an in-place ``kernel`` on a contiguous copy of its first argument, and copy the result back."""

    def wrapper(x: Tensor, *args: Any, **kwargs: Any) -> Any:
        if not any([_is_strided(value) for value in (x, *args)]):
            return kernel(x, *args, **kwargs)
        contiguous = x.clone(memory_format=torch.contiguous_format)
        return x.copy_(kernel(contiguous, *map(_make_contiguous, args), **kwargs))

    return wrapper


def _copy_to_out(_op: OpOverload, kernel: Kernel) -> Kernel:
    """Write into a contiguous tensor first, and copy it to ``out``."""

    def wrapper(*args: Any, out: Tensor, **kwargs: Any) -> Any:
        if out.is_contiguous():
            return kernel(*args, out=out, **kwargs)
        result = kernel(*map(_make_contiguous, args), out=out.new_empty(0), **kwargs)
        return out.resize_(result.shape).copy_(result) if out.shape != result.shape else out.copy_(result)

    return wrapper


def concerns(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether a call has a strided argument or a strided ``out``."""
    return any(map(_is_strided, (*args, kwargs.get("out"))))


def _is_strided(value: Any) -> bool:
    return isinstance(value, Tensor) and not value.is_contiguous() and value.dtype in _FLOATS


def _make_contiguous(value: Any) -> Any:
    return value.contiguous() if _is_strided(value) else value


WRAPPERS = {
    **{f"aten::{name}": _copy_inputs for name in f"{_ELEMENTWISE} {_SUMS} {_CONVOLUTIONS}".split()},
    **{f"aten::{name}": _copy_to_out for name in _IGNORES_STRIDES_OF_OUT.split()},
    **{f"aten::{name}": _copy_back for name in _IN_PLACE.split()},
}
