"""npu_deep_norm_backward becomes DeepNormGrad, of which TorchAir has no converter."""

from __future__ import annotations

from graph_quant.converters.lowering import PROTO_FLOAT, lowers
from torchair._ge_concrete_graph.compat_ir import ge_op
from torchair.ge import attr
from torchair.ge._ge_graph import Tensor


@lowers("npu_deep_norm_backward")
def lower_deep(
    dy: Tensor, x: Tensor, gx: Tensor, gamma: Tensor, mean: Tensor, rstd: Tensor, alpha: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The GE node of one call."""
    dx, dgx, dbeta, dgamma = ge_op(
        op_type="DeepNormGrad",
        inputs={"dy": dy, "x": x, "gx": gx, "gamma": gamma, "mean": mean, "rstd": rstd},
        outputs=["dx", "dgx", "dbeta", "dgamma"],
        attrs={"alpha": attr.Float(alpha)},
    )
    dx.desc.dtype, dgx.desc.dtype = x.desc.dtype, gx.desc.dtype
    dbeta.desc.dtype = dgamma.desc.dtype = PROTO_FLOAT
    return dx, dgx, dbeta, dgamma
