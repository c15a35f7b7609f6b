"""npu_transpose_batchmatmul becomes TransposeBatchMatMul.

TorchAir's converter omits a permutation that is None, and the dtype of an int8 result.
"""

from __future__ import annotations

import torch
from graph_quant.converters.lowering import lowers
from graph_quant.converters.matmul.quant_matmul import packed_scale
from graph_quant.destination import INT8
from graph_quant.meta.matmul.transpose_batchmatmul import TransposeBatchMatmulPlan
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import Tensor


@lowers("npu_transpose_batchmatmul")
def lower(plan: TransposeBatchMatmulPlan, x1: Tensor, x2: Tensor, scale: Tensor | None) -> Tensor:
    """The GE node of one call."""
    y = ge.TransposeBatchMatMul(
        x1,
        x2,
        bias=None,
        scale=None if scale is None else packed_scale(scale),
        perm_x1=list(plan.x1_order),
        perm_x2=list(plan.x2_order),
        perm_y=list(plan.y_order),
        enable_hf32=torch.npu.matmul.allow_hf32,  # type: ignore[attr-defined]
        batch_split_factor=plan.parts,
    )
    y.desc.dtype = x1.desc.dtype if scale is None else INT8.ge_desc
    return y
