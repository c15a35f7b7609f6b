"""aten.mm of operands in two precisions: in float32, rounded to the dtype of the first, as in eager mode.

TorchAir passes both to MatMul as they are, which the node does not support.
"""

from __future__ import annotations

from typing import Any

import torch
from graph_quant.converters.lowering import converts, in_type
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import DataType, Tensor

_FLOATS = (DataType.DT_FLOAT, DataType.DT_FLOAT16, DataType.DT_BF16)


@converts(torch.ops.aten.mm.default)
def mm(x1: Tensor, x2: Tensor, meta_outputs: Any = None) -> Tensor:  # noqa: ARG001
    """MatMul, with casts around it where the dtypes differ."""
    if DataType.DT_INT8 in (x1.dtype, x2.dtype):
        raise RuntimeError("aten.mm: int8 matrices are multiplied by npu_quant_matmul")
    if x1.dtype == x2.dtype or x1.dtype not in _FLOATS or x2.dtype not in _FLOATS:
        return ge.MatMul(x1, x2, None)
    product = ge.MatMul(*in_type(DataType.DT_FLOAT, x1, x2), None)
    return product if x1.dtype == DataType.DT_FLOAT else ge.Cast(product, dst_type=x1.dtype)
