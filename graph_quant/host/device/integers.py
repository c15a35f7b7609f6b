"""Operators that the NPU has for integers too, and the CPU for floats alone: computed in double precision."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from .kernels import Kernel

NAMES = frozenset({"aten::histc"})


def through_double(kernel: Kernel) -> Kernel:
    """``kernel``, for integers as well; double precision holds every integer that is counted."""

    def serve(x: Tensor, *args: Any, **kwargs: Any) -> Any:
        if x.is_floating_point():
            return kernel(x, *args, **kwargs)
        return kernel(x.double(), *args, **kwargs).to(x.dtype)

    return serve
