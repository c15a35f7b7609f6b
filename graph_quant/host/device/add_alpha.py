"""add and sub with alpha in half precision, rounded once: the CPU rounds twice where a vector is not full."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from ...reference.half_precision import HALF_DTYPES, add_scaled
from ..alias import as_cpu, to_npu
from .kernels import Kernel


def _round_once(op: OpOverload, kernel: Kernel) -> Kernel:
    """Compute calls with alpha on two half-precision tensors in float32; leave all others to ``kernel``."""
    is_sub, in_place = op.name().startswith("aten::sub"), op.name().endswith("_.Tensor")

    def wrapper(x: Any, other: Any, *, alpha: Any = 1, **out: Tensor) -> Any:
        if alpha == 1:
            return kernel(x, other, **out)
        if not _is_half(x) or not _is_half(other) or x.dtype != other.dtype:
            return kernel(x, other, alpha=alpha, **out)
        scale = torch.tensor(-alpha if is_sub else alpha, dtype=x.dtype)
        total = add_scaled(as_cpu(x).contiguous(), as_cpu(other).contiguous(), scale)
        if not x.is_cpu:  # as in a replay
            total = to_npu(total)
        if out:  # the zero that changes no bit: -0.0 + -0.0 is -0.0
            return kernel(total, torch.tensor(0.0 if is_sub else -0.0, dtype=x.dtype), **out)
        return x.copy_(total) if in_place else total

    return wrapper


def _is_half(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dtype in HALF_DTYPES


WRAPPERS = dict.fromkeys(
    (f"aten::{name}" for op in ("add", "sub") for name in (f"{op}.Tensor", f"{op}_.Tensor", f"{op}.out")), _round_once
)
