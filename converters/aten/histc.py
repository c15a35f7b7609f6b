"""aten.histc, which counts the tokens of each expert and has no converter in TorchAir, becomes Histogram.

Histogram takes float32 and int32, and counts in the same dtype.
"""

from __future__ import annotations

from typing import Any

import torch
from graph_quant.converters.lowering import converts
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import DataType, Tensor

_FLOATS = (DataType.DT_FLOAT, DataType.DT_FLOAT16, DataType.DT_BF16, DataType.DT_DOUBLE)


@converts(torch.ops.aten.histc.default)
def histc(
    x: Tensor,
    bins: int = 100,
    min: float = 0,  # noqa: A002
    max: float = 0,  # noqa: A002
    meta_outputs: Any = None,  # noqa: ARG001
) -> Tensor:
    """Histogram, with casts around it where it does not support the dtype."""
    counted = DataType.DT_FLOAT if x.dtype in _FLOATS else DataType.DT_INT32
    source = x if x.dtype == counted else ge.Cast(x, dst_type=counted)
    counts: Tensor = ge.Histogram(source, bins=bins, min=float(min), max=float(max))
    return counts if x.dtype == counted else ge.Cast(counts, dst_type=x.dtype)
