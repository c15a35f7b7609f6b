"""npu_quant_matmul becomes QuantBatchMatmulV3.

A float scale that the kernel wants packed goes through TransQuantParamV2 first, as eager execution does;
one that npu_trans_quant_param packed in the graph is taken as the UINT64 it is. int4 operands arrive as
int32 and are unpacked by Bitcast and Reshape; x2 packed along k is turned so that its packed dimension is
the last, and multiplied transposed.
"""

from __future__ import annotations

from graph_quant.converters.lowering import PROTO_UINT64, lowers, producer, swapped_last_two, unpacked
from graph_quant.converters.quant import trans_quant_param
from graph_quant.meta.matmul.quant_matmul import QuantMatmulPlan, quant_matmul
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import Tensor


@lowers(quant_matmul)
def lower(
    plan: QuantMatmulPlan,
    x1: Tensor,
    x2: Tensor,
    scale: Tensor,
    offset: Tensor | None,
    pertoken_scale: Tensor | None,
    bias: Tensor | None,
) -> Tensor:
    """The GE nodes of one call."""
    is_row = scale.meta.dim() == 2
    scale = trans_quant_param.quant_params(scale, offset) if plan.packs_scale else as_packed(scale)
    if is_row:
        dtype = scale.desc.dtype
        scale = ge.Reshape(scale, [-1])
        scale.desc.dtype = dtype
    x1, x2 = _operands(x1, x2, plan)
    y = ge.QuantBatchMatmulV3(
        x1,
        x2,
        scale,
        offset,
        bias,
        pertoken_scale,
        dtype=plan.output.ge_attr,
        transpose_x1=False,
        transpose_x2=plan.packed_along_k,
    )
    y.desc.dtype = plan.output.ge_desc
    return y


def _operands(x1: Tensor, x2: Tensor, plan: QuantMatmulPlan) -> tuple[Tensor, Tensor]:
    if not plan.int4:
        return x1, x2
    if plan.packed_along_k:
        source = producer(x2) if x2.node.type == "Transpose" else None
        x2 = swapped_last_two(x2, rank=2) if source is None else source
    return unpacked(x1, x1.rank), unpacked(x2, rank=2)


def as_packed(scale: Tensor) -> Tensor:
    """``scale`` as TransQuantParamV2 gave it, without the Bitcast that hides its UINT64 from torch."""
    source = producer(scale) if scale.node.type == "Bitcast" else scale
    if source is None or source.node.type != trans_quant_param.NODE:
        return scale
    # Torch's view of the result, int64, may have been written into the desc meanwhile.
    source.desc.dtype = PROTO_UINT64
    return source
