"""npu_geglu_grad becomes GeGluGradV2, of which TorchAir has no converter."""

from __future__ import annotations

from graph_quant.converters.lowering import lowers
from torchair._ge_concrete_graph.compat_ir import ge_op
from torchair.ge import attr
from torchair.ge._ge_graph import Tensor


@lowers("npu_geglu_grad")
def lower(dy: Tensor, x: Tensor, gelu: Tensor, dim: int, approximate: int, activate_left: bool) -> Tensor:
    """The GE node of one call."""
    dx: Tensor = ge_op(
        op_type="GeGluGradV2",
        inputs={"dy": dy, "x": x, "gelu": gelu},
        outputs=["dx"],
        attrs={
            "dim": attr.Int(dim),
            "approximate": attr.Int(approximate),
            "activate_left": attr.Bool(activate_left),
        },
    )
    dx.desc.dtype = x.desc.dtype
    return dx
