"""npu_transpose_quant_batchmatmul becomes TransposeQuantBatchMatMul, as TorchAir has it.

TorchAir's converter leaves packed scales INT64, which the kernel refuses; here they are UINT64.
"""

from __future__ import annotations

from graph_quant.converters.lowering import lowers
from graph_quant.converters.matmul.quant_matmul import packed_scale
from graph_quant.converters.narrow import E8M0, viewed_as
from graph_quant.ge import TO_ATTRIBUTE, TO_DESC
from graph_quant.meta.matmul.transpose_quant_batchmatmul import TransposeQuantPlan
from graph_quant.reference.matmul.transpose_quant_batchmatmul import DEPTH_LAST, ROWS_FIRST, STRAIGHT
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import Tensor

_RANK, _MX_RANK = 3, 4


@lowers("npu_transpose_quant_batchmatmul")
def lower(plan: TransposeQuantPlan, x1: Tensor, x2: Tensor, x1_scale: Tensor | None, x2_scale: Tensor) -> Tensor:
    """The GE nodes of one call."""
    if plan.group_size:
        assert x1_scale is not None
        x1_scale, x2_scale = (viewed_as(scale, E8M0, _MX_RANK) for scale in (x1_scale, x2_scale))
    else:
        x2_scale = packed_scale(x2_scale)
    name = str(plan.output).removeprefix("torch.")
    y = ge.TransposeQuantBatchMatMul(
        viewed_as(x1, plan.x1_name, _RANK),
        viewed_as(x2, plan.x2_name, _RANK),
        bias=None,
        x1_scale=x1_scale,
        x2_scale=x2_scale,
        dtype=TO_ATTRIBUTE[name],
        group_size=plan.group_size,
        perm_x1=list(ROWS_FIRST),
        perm_x2=list(DEPTH_LAST if plan.is_transposed else STRAIGHT),
        perm_y=list(ROWS_FIRST),
        batch_split_factor=1,
    )
    y.desc.dtype = TO_DESC[name]
    return y
