"""npu_rms_norm_quant becomes RmsNormQuant, for which TorchAir has no function, and for int4 the nodes that pack."""

from __future__ import annotations

from graph_quant.converters.lowering import lowers, stored
from graph_quant.meta.norm.rms_norm_quant import RmsNormQuantPlan
from torchair._ge_concrete_graph import ge_apis as ge
from torchair._ge_concrete_graph.compat_ir import ge_op
from torchair.ge import attr
from torchair.ge._ge_graph import Tensor


@lowers("npu_rms_norm_quant")
def lower(
    plan: RmsNormQuantPlan, x: Tensor, gamma: Tensor, beta: Tensor, scale: Tensor, offset: Tensor, epsilon: float
) -> Tensor:
    """The GE nodes of one call."""
    y = ge_op(
        op_type="RmsNormQuant",
        inputs={"x": x, "gamma": _row(gamma), "beta": _row(beta), "scale": scale, "offset": offset},
        outputs=["y"],
        attrs={"epsilon": attr.Float(epsilon), "dst_type": attr.Int(plan.destination.ge_attr)},
    )
    return stored(y, plan.destination, leading=[0] * (x.rank - 1))


def _row(row: Tensor) -> Tensor:
    if row.rank == 1:
        return row
    flat = ge.Reshape(row, [-1])
    flat.desc.dtype = row.desc.dtype
    return flat
