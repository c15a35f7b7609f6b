"""npu_dtype_cast becomes Cast; narrow floats that torch has in bytes become those by Bitcasts.

TorchAir's converter writes the dtype of bytes into the desc of the node that computed them, which others may read.
"""

from __future__ import annotations

from graph_quant.converters.lowering import lowers
from graph_quant.converters.narrow import viewed_as
from graph_quant.converters.quant.dynamic_mx_quant import in_bytes
from graph_quant.ge import TO_ATTRIBUTE, TO_DESC, ge_dtype_name
from graph_quant.meta.quant.dtype_cast import CastPlan
from graph_quant.refusals import UndescribedError
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import Tensor


@lowers("npu_dtype_cast")
def lower(plan: CastPlan, x: Tensor) -> Tensor:
    """The GE nodes of one call."""
    if plan.source == "hifloat8":
        raise UndescribedError("npu_dtype_cast: HiFloat8 as an input is not described in graphs yet")
    if plan.source is not None:
        x = viewed_as(x, plan.source, x.rank)
    name = plan.target or ge_dtype_name(plan.to)
    y = ge.Cast(x, dst_type=TO_ATTRIBUTE[name])
    y.desc.dtype = TO_DESC[name]
    if name == "hifloat8":
        return in_bytes(y)
    if not name.startswith("float4"):
        return y
    pairs = ge.Reshape(y, [*[0] * (x.rank - 1), -1, 2])
    pairs.desc.dtype = TO_DESC[name]
    return in_bytes(pairs)
