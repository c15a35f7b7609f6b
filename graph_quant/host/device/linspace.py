"""linspace in half precision: computed in float32 and rounded once, as in graphs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from ...reference.half_precision import HALF_DTYPES
from .kernels import Kernel


def _in_float32(_op: OpOverload, kernel: Kernel) -> Kernel:
    def wrapper(start: Any, end: Any, steps: int, *, out: Tensor) -> Tensor:
        if out.dtype not in HALF_DTYPES:
            return kernel(start, end, steps, out=out)  # type: ignore[no-any-return]
        wide = torch.linspace(start, end, steps, dtype=torch.float32, device=out.device)
        return out.resize_(wide.size()).copy_(wide)

    return wrapper


WRAPPERS = {"aten::linspace.out": _in_float32}
