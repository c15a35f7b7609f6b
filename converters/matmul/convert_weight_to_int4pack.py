"""npu_convert_weight_to_int4pack: GE has no node for it, and TorchAir no converter. Cast makes int4, Bitcast packs."""

from __future__ import annotations

from graph_quant.converters.lowering import lowers, stored
from graph_quant.destination import INT4
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import Tensor


@lowers("npu_convert_weight_to_int4pack")
def lower(weight: Tensor) -> Tensor:
    """The GE nodes of one call."""
    elements = ge.Cast(weight, dst_type=INT4.ge_attr)
    elements.desc.dtype = INT4.ge_desc
    return stored(elements, INT4, [0] * (weight.rank - 1))
