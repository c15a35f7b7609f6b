"""Sums with a factor in half precision, rounded once: the CPU rounds twice where a vector is not full."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..alias import as_cpu, to_npu
from ..half_precision import HALF_DTYPES, add_scaled
from .kernels import Kernel

NAMES = frozenset(f"aten::{name}" for name in ("add.Tensor", "add_.Tensor", "sub.Tensor", "sub_.Tensor"))


def rounded_once(name: str, kernel: Kernel) -> Kernel:
    """``kernel``, for sums without a factor, and of what is no half."""
    negated, written = name.startswith("aten::sub"), "_." in name

    def serve(x: Any, other: Any, *, alpha: Any = 1) -> Any:
        if alpha == 1:
            return kernel(x, other)
        halves = [isinstance(each, Tensor) and each.dtype in HALF_DTYPES and not each.is_cpu for each in (x, other)]
        if not all(halves) or x.dtype != other.dtype:
            return kernel(x, other, alpha=alpha)
        factor = torch.tensor(-alpha if negated else alpha, dtype=x.dtype)
        total = to_npu(add_scaled(as_cpu(x).contiguous(), as_cpu(other).contiguous(), factor))
        return x.copy_(total) if written else total

    return serve
