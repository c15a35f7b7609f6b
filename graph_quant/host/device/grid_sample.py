"""grid_sampler in half precision: computed in float32 and rounded once, as in graphs."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch._ops import OpOverload

from ...reference.half_precision import HALF_DTYPES
from .kernels import Kernel


def _in_float32(_op: OpOverload, kernel: Kernel) -> Kernel:
    def wrapper(x: Tensor, grid: Tensor, *settings: Any) -> Any:
        if x.dtype not in HALF_DTYPES:
            return kernel(x, grid, *settings)
        return kernel(x.float(), grid.float(), *settings).to(x.dtype)

    return wrapper


WRAPPERS = {"aten::grid_sampler_2d": _in_float32, "aten::grid_sampler_3d": _in_float32}
