"""npu_gemma_rms_norm becomes GemmaRmsNorm, for which TorchAir has no function."""

from __future__ import annotations

from graph_quant.converters.lowering import lowers
from graph_quant.ge import TO_DESC
from torchair._ge_concrete_graph.compat_ir import ge_op
from torchair.ge import attr
from torchair.ge._ge_graph import Tensor


@lowers("npu_gemma_rms_norm")
def lower(x: Tensor, gamma: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    """The GE node of one call."""
    y, rstd = ge_op(
        op_type="GemmaRmsNorm",
        inputs={"x": x, "gamma": gamma},
        outputs=["y", "rstd"],
        attrs={"epsilon": attr.Float(epsilon)},
    )
    rstd.desc.dtype = TO_DESC["float32"]
    return y, rstd
