"""npu_quant_matmul_gelu becomes FusedQuantMatMul, for which TorchAir has neither a converter nor a function."""

from __future__ import annotations

from graph_quant.converters.lowering import lowers
from graph_quant.converters.matmul.quant_matmul import operands
from graph_quant.meta.matmul.quant_matmul_gelu import QuantMatmulGeluPlan
from torchair._ge_concrete_graph.compat_ir import ge_op
from torchair.ge import attr
from torchair.ge._ge_graph import Tensor


@lowers("npu_quant_matmul_gelu")
def lower(
    plan: QuantMatmulGeluPlan, x1: Tensor, x2: Tensor, x1_scale: Tensor, x2_scale: Tensor, bias: Tensor | None
) -> Tensor:
    """The GE nodes of one call."""
    x1, x2 = operands(x1, x2, plan.int4, plan.packed_along_k)
    y: Tensor = ge_op(
        op_type="FusedQuantMatMul",
        inputs={"x1": x1, "x2": x2, "bias": bias, "x1_scale": x1_scale, "x2_scale": x2_scale},
        attrs={
            "dtype": attr.Int(plan.output.ge_attr),
            "transpose_x1": attr.Bool(False),
            "transpose_x2": attr.Bool(plan.packed_along_k),
            "fused_op_type": attr.Str(plan.gelu),
        },
        outputs=["y"],
    )
    y.desc.dtype = plan.output.ge_desc
    return y
