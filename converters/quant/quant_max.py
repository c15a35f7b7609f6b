"""npu_quant_max becomes QuantMax, whose HiFloat8 a Bitcast makes uint8."""

from __future__ import annotations

from graph_quant.converters.lowering import lowers, stored
from graph_quant.meta.quant.quant_max import QuantMaxPlan
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import Tensor


@lowers("npu_quant_max")
def lower(plan: QuantMaxPlan, x: Tensor, scale: Tensor, round_mode: str) -> tuple[Tensor, Tensor]:
    """The GE nodes of one call."""
    y, amax = ge.QuantMax(x, scale, round_mode=round_mode, dst_type=plan.destination.ge_attr)
    amax.desc.dtype = x.desc.dtype
    return stored(y, plan.destination, leading=[0] * (x.rank - 1)), amax
