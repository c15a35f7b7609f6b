"""npu_dynamic_dual_level_mx_quant becomes DynamicDualLevelMxQuant, whose results Bitcasts make bytes."""

from __future__ import annotations

from graph_quant.converters.lowering import lowers
from graph_quant.converters.quant.dynamic_mx_quant import in_bytes, stored_values
from graph_quant.ge import TO_DESC
from graph_quant.narrow_floats import E2M1
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import Tensor


@lowers("npu_dynamic_dual_level_mx_quant")
def lower(input: Tensor, round_mode: str) -> tuple[Tensor, Tensor, Tensor]:  # noqa: A002
    """The GE nodes of one call."""
    y, level0_scale, level1_scale = ge.DynamicDualLevelMxQuant(input, None, round_mode=round_mode)
    level0_scale.desc.dtype = TO_DESC["float32"]
    level1_scale.desc.dtype = TO_DESC["float8_e8m0"]
    return stored_values(y, E2M1, input.rank), level0_scale, in_bytes(level1_scale)
