"""Samples of images in half precision: computed in float32 and rounded once, as in graphs."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ..half_precision import HALF_DTYPES
from .kernels import Kernel

IN_FLOAT32 = frozenset({"aten::grid_sampler_2d", "aten::grid_sampler_3d"})


def in_float32(kernel: Kernel) -> Kernel:
    """``kernel``, which is given no halves."""

    def serve(x: Tensor, grid: Tensor, *settings: Any) -> Any:
        if x.dtype not in HALF_DTYPES:
            return kernel(x, grid, *settings)
        return kernel(x.float(), grid.float(), *settings).to(x.dtype)

    return serve
