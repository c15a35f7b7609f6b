"""Convolutions in half precision that are transposed: summed in float32 and rounded once, as in graphs."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ..halves import HALVES
from .kernels import Kernel

NAMES = frozenset({"aten::convolution", "aten::convolution_overrideable", "aten::_convolution"})


def in_float32(kernel: Kernel) -> Kernel:
    """``kernel``, which is given no halves to transpose."""

    def serve(
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        stride: Any,
        padding: Any,
        dilation: Any,
        transposed: bool,
        *rest: Any,
    ) -> Any:
        if not transposed or x.dtype not in HALVES:
            return kernel(x, weight, bias, stride, padding, dilation, transposed, *rest)
        wide = None if bias is None else bias.float()
        return kernel(x.float(), weight.float(), wide, stride, padding, dilation, transposed, *rest).to(x.dtype)

    return serve
