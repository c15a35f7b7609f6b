"""npu_gelu_quant becomes GeluQuant; the scale that static quantisation lacks is None, as it is eagerly."""

from __future__ import annotations

from graph_quant.converters.lowering import PROTO_FLOAT, lowers
from graph_quant.destination import INT8
from graph_quant.reference.activation.gelu_quant import DYNAMIC
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import Tensor


@lowers("npu_gelu_quant")
def lower(
    x: Tensor, input_scale: Tensor | None, input_offset: Tensor | None, approximate: str, quant_mode: str
) -> tuple[Tensor, Tensor | None]:
    """The GE node of one call."""
    y, scale = ge.GeluQuant(
        x,
        input_scale=input_scale,
        input_offset=input_offset,
        approximate=approximate,
        quant_mode=quant_mode,
        dst_type=INT8.ge_attr,
        round_mode="rint",
    )
    y.desc.dtype, scale.desc.dtype = INT8.ge_desc, PROTO_FLOAT
    return y, scale if quant_mode == DYNAMIC else None
