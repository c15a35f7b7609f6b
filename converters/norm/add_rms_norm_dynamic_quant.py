"""npu_add_rms_norm_dynamic_quant becomes AddRmsNormDynamicQuant, and for int4 the nodes that pack each result."""

from __future__ import annotations

from collections.abc import Sequence

from graph_quant.converters.lowering import lowers, stored
from graph_quant.destination import HIFLOAT8, NARROW, Destination
from graph_quant.ge import TO_ATTRIBUTE, TO_DESC
from graph_quant.meta.norm.add_rms_norm_dynamic_quant import NormQuantPlan
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import DataType, Tensor

_STORED = {destination.name: destination.name for destination in NARROW} | {HIFLOAT8.name: "uint8"}


@lowers("npu_add_rms_norm_dynamic_quant")
def lower(
    plan: NormQuantPlan,
    x1: Tensor,
    x2: Tensor,
    gamma: Tensor,
    smooth_scale1: Tensor | None,
    smooth_scale2: Tensor | None,
    beta: Tensor | None,
    epsilon: float,
    output_mask: Sequence[bool] | None,
) -> tuple[Tensor, ...]:
    """The GE nodes of one call; a result that is not wanted is one zero."""
    y1, y2, x, scale1, scale2 = ge.AddRmsNormDynamicQuant(
        x1,
        x2,
        gamma,
        smooth_scale1=smooth_scale1,
        smooth_scale2=smooth_scale2,
        beta=beta,
        epsilon=epsilon,
        output_mask=[] if output_mask is None else list(output_mask),
        dst_type=plan.destination.ge_attr,
    )
    ys = [_result(y, wanted, plan.destination, x1.rank) for y, wanted in zip((y1, y2), plan.outputs, strict=True)]
    scales = [
        scale if wanted else ge.Const(0, dtype=DataType.DT_FLOAT)
        for scale, wanted in zip((scale1, scale2), plan.outputs, strict=True)
    ]
    return (*ys, x, *scales)


def _result(y: Tensor, wanted: bool, destination: Destination, rank: int) -> Tensor:
    y.desc.dtype = destination.ge_desc
    if wanted:
        return stored(y, destination, leading=[0] * (rank - 1))
    if destination in NARROW:
        zero = ge.Bitcast(ge.Const(0, dtype=DataType.DT_UINT8), type=TO_ATTRIBUTE[_STORED[destination.name]])
        zero.desc.dtype = TO_DESC[_STORED[destination.name]]
        return zero
    return ge.Const(0, dtype=DataType.DT_INT32 if destination.is_packed else DataType.DT_INT8)
