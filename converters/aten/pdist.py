"""pdist and col2im."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from graph_quant.converters.lowering import computed, converts, in_type, taken_in
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import DataType, Tensor

aten = torch.ops.aten
# The value of p that means the infinity norm to the node.
_INFINITY_NORM = -1.0


@converts(aten._pdist_forward.default)
def pdist(x: Tensor, p: float = 2.0, meta_outputs: Any = None) -> Tensor:  # noqa: ARG001
    """Pdist."""
    return computed("Pdist", x.dtype, x, p=_INFINITY_NORM if math.isinf(p) else float(p))


@converts(aten.col2im.default)
def col2im(
    x: Tensor,
    output_size: Any,
    kernel_size: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
    meta_outputs: Any = None,  # noqa: ARG001
) -> Tensor:
    """Col2im, whose columns have separate dimensions for channels and window positions."""
    window = math.prod(kernel_size)
    leading = [0] if x.rank == 3 else [1]
    inner = taken_in("Col2im", x.dtype)
    columns = ge.Reshape(in_type(inner, x), [*leading, -1, window, *_last(x)])
    image = ge.Col2im(
        columns,
        in_type(DataType.DT_INT32, output_size),
        kernel_size=list(kernel_size),
        dilation=list(dilation),
        padding=list(padding),
        stride=list(stride),
    )
    image = image if x.rank == 3 else ge.Squeeze(image, axis=[0])
    return image if inner == x.dtype else ge.Cast(image, dst_type=x.dtype)


def _last(x: Tensor) -> list[Any]:
    last = x.symsize[-1]
    if not isinstance(last, int):
        raise NotImplementedError("aten.col2im is lowered for a number of windows that is known: use dynamic=False")
    return [last]
