"""npu_dual_level_quant_matmul becomes DualLevelQuantBatchMatmul, for which TorchAir has no function.

Bytes become float4 and float8_e8m0 by a Bitcast.
"""

from __future__ import annotations

from graph_quant.converters.lowering import lowers
from graph_quant.converters.narrow import E8M0, viewed_as
from graph_quant.ge import TO_ATTRIBUTE, TO_DESC
from graph_quant.meta.matmul.dual_level_quant_matmul import DualLevelPlan
from graph_quant.narrow_floats import E2M1
from graph_quant.reference.matmul.dual_level_quant_matmul import LEVEL0, LEVEL1
from torchair._ge_concrete_graph.compat_ir import ge_op
from torchair.ge import attr
from torchair.ge._ge_graph import Tensor

_RANK, _CODES_RANK = 2, 3


@lowers("npu_dual_level_quant_matmul")
def lower(
    plan: DualLevelPlan,
    x1: Tensor,
    x2: Tensor,
    x1_level0_scale: Tensor,
    x2_level0_scale: Tensor,
    x1_level1_scale: Tensor,
    x2_level1_scale: Tensor,
    bias: Tensor | None,
) -> Tensor:
    """The GE nodes of one call."""
    name = str(plan.output).removeprefix("torch.")
    y: Tensor = ge_op(
        op_type="DualLevelQuantBatchMatmul",
        inputs={
            "x1": viewed_as(x1, E2M1.name, _RANK),
            "x2": viewed_as(x2, E2M1.name, _RANK),
            "x1_level0_scale": x1_level0_scale,
            "x1_level1_scale": viewed_as(x1_level1_scale, E8M0, _CODES_RANK),
            "x2_level0_scale": x2_level0_scale,
            "x2_level1_scale": viewed_as(x2_level1_scale, E8M0, _CODES_RANK),
            "bias": bias,
        },
        outputs=["y"],
        attrs={
            "dtype": attr.Int(TO_ATTRIBUTE[name]),
            "transpose_x1": attr.Bool(False),
            "transpose_x2": attr.Bool(True),
            "level0_group_size": attr.Int(LEVEL0),
            "level1_group_size": attr.Int(LEVEL1),
        },
    )
    y.desc.dtype = TO_DESC[name]
    return y
