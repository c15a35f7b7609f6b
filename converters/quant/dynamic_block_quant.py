"""npu_dynamic_block_quant becomes DynamicBlockQuant; TorchAir's converter refuses int8, all that A2 and A3 make."""

from __future__ import annotations

from graph_quant.converters.lowering import lowers
from graph_quant.destination import INT8
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import Tensor


@lowers("npu_dynamic_block_quant")
def lower(x: Tensor, min_scale: float) -> tuple[Tensor, Tensor]:
    """The GE node of one call."""
    y, scale = ge.DynamicBlockQuant(x, min_scale=min_scale, dst_type=INT8.ge_attr)
    y.desc.dtype = INT8.ge_desc
    return y, scale
