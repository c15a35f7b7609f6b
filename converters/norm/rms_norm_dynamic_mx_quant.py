"""npu_rms_norm_dynamic_mx_quant becomes RmsNormDynamicMxQuant, and with an addition AddRmsNormDynamicMxQuant.

Neither node computes rstd, as in TorchAir's converters, which leave the desc of it without elements.
"""

from __future__ import annotations

from graph_quant.converters.lowering import absent, lowers
from graph_quant.converters.quant.dynamic_mx_quant import in_bytes, stored_values
from graph_quant.ge import TO_ATTRIBUTE, TO_DESC
from graph_quant.reference.quant.mx_blocks import MxRule
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import Tensor


@lowers("npu_rms_norm_dynamic_mx_quant")
def lower(x: Tensor, gamma: Tensor, beta: Tensor | None, epsilon: float, rule: MxRule) -> tuple[Tensor, Tensor, Tensor]:
    """The GE nodes of one call."""
    y, mxscale, _ = ge.RmsNormDynamicMxQuant(
        x,
        gamma,
        beta,
        epsilon=epsilon,
        scale_alg=rule.scale_alg,
        round_mode=rule.round_mode,
        dst_type=TO_ATTRIBUTE[rule.target.name],
    )
    mxscale.desc.dtype = TO_DESC["float8_e8m0"]
    return stored_values(y, rule.target, x.rank), in_bytes(mxscale), absent("float32")


@lowers("npu_add_rms_norm_dynamic_mx_quant")
def lower_sum(
    x1: Tensor, x2: Tensor, gamma: Tensor, beta: Tensor | None, epsilon: float, rule: MxRule
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The GE nodes of one call."""
    y, x, mxscale, _ = ge.AddRmsNormDynamicMxQuant(
        x1,
        x2,
        gamma,
        beta,
        epsilon=epsilon,
        scale_alg=rule.scale_alg,
        round_mode=rule.round_mode,
        dst_type=TO_ATTRIBUTE[rule.target.name],
    )
    mxscale.desc.dtype = TO_DESC["float8_e8m0"]
    return stored_values(y, rule.target, x1.rank), x, in_bytes(mxscale), absent("float32")
