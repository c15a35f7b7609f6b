"""npu_anti_mx_quant becomes AntiMxQuant; float4 and scales in bytes become their dtypes by Bitcasts."""

from __future__ import annotations

from graph_quant.converters.lowering import lowers
from graph_quant.destination import find
from graph_quant.ge import TO_ATTRIBUTE, TO_DESC
from graph_quant.meta.quant.anti_mx_quant import AntiMxPlan
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import Tensor


@lowers("npu_anti_mx_quant")
def lower(plan: AntiMxPlan, x: Tensor, mxscale: Tensor) -> Tensor:
    """The GE nodes of one call."""
    if plan.source.dtype is None:
        x = _bits(x, plan.source.name)
        x = ge.Reshape(x, [*[0] * (len(plan.results[0].shape) - 1), -1])  # type: ignore[union-attr]
        x.desc.dtype = TO_DESC[plan.source.name]
    target = find(plan.output)
    assert target is not None
    scale = _bits(mxscale, "float8_e8m0") if mxscale.desc.dtype != TO_DESC["float8_e8m0"] else mxscale
    y = ge.AntiMxQuant(x, scale, axis=-1, dst_type=target.ge_attr)
    y.desc.dtype = target.ge_desc
    return y


def _bits(x: Tensor, name: str) -> Tensor:
    """The elements of bytes; two float4 in a last dimension of their own."""
    elements = ge.Bitcast(x, type=TO_ATTRIBUTE[name])
    elements.desc.dtype = TO_DESC[name]
    return elements
