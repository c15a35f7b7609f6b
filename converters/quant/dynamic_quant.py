"""npu_dynamic_quant becomes DynamicQuant, which quantises symmetrically by token.

DynamicQuantV2 is asymmetric on A2 and A3, whatever its attribute says.
"""

from __future__ import annotations

from graph_quant.converters.lowering import lowers
from graph_quant.converters.quant import dynamic
from graph_quant.meta.quant.dynamic import DynamicPlan
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import Tensor


def _by_token(x: Tensor, smooth: Tensor | None, groups: Tensor | None, dst_type: int) -> tuple[Tensor, ...]:
    quantised: tuple[Tensor, ...] = ge.DynamicQuant(x, smooth, groups, dst_type=dst_type)
    return quantised


@lowers("npu_dynamic_quant")
def lower(plan: DynamicPlan, x: Tensor, smooth_scales: Tensor | None, group_index: Tensor | None) -> tuple[Tensor, ...]:
    """The GE nodes of one call."""
    return dynamic.nodes(_by_token, True, plan, x, smooth_scales, group_index)
