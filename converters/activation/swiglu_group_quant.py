"""npu_swiglu_group_quant becomes SwigluGroupQuant and its gradient SwigluGroupQuantGrad; TorchAir has neither.

Results that a call does not have are empty tensors.
"""

from __future__ import annotations

from graph_quant.converters.lowering import absent, lowers, stored
from graph_quant.destination import HIFLOAT8
from graph_quant.ge import OF_ATTRIBUTE
from graph_quant.reference.activation.swiglu_group_quant import DYNAMIC
from torchair._ge_concrete_graph.compat_ir import ge_op
from torchair.ge import attr
from torchair.ge._ge_graph import Tensor


@lowers("npu_swiglu_group_quant")
def lower(
    x: Tensor,
    weight: Tensor | None,
    group_index: Tensor | None,
    scale: Tensor | None,
    quant_mode: int,
    clamp_limit: float,
    dst_type_max: float,
    output_origin: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """The GE nodes of one call."""
    y, y_scale, y_origin = ge_op(
        op_type="SwigluGroupQuant",
        inputs={"x": x, "weight": weight, "group_index": group_index, "scale": scale},
        outputs=["y", "y_scale", "y_origin"],
        attrs={
            "dst_type": attr.Int(HIFLOAT8.ge_attr),
            "quant_mode": attr.Int(quant_mode),
            "clamp_limit": attr.Float(clamp_limit),
            "dst_type_max": attr.Float(dst_type_max),
            "output_origin": attr.Bool(output_origin),
        },
    )
    y = stored(y, HIFLOAT8, leading=[0] * (x.rank - 1))
    origin = y_origin if output_origin else absent(OF_ATTRIBUTE[int(x.dtype)])
    return y, y_scale if quant_mode == DYNAMIC else absent("float32"), origin


@lowers("npu_swiglu_group_quant_backward")
def lower_gradient(
    grad_y: Tensor,
    x: Tensor,
    weight: Tensor | None,
    y_origin: Tensor | None,
    group_index: Tensor | None,
    clamp_limit: float,
) -> tuple[Tensor, Tensor]:
    """The GE nodes of one call."""
    grad_x, grad_weight = ge_op(
        op_type="SwigluGroupQuantGrad",
        inputs={"grad_y": grad_y, "x": x, "weight": weight, "y_origin": y_origin, "group_index": group_index},
        outputs=["grad_x", "grad_weight"],
        attrs={"clamp_limit": attr.Float(clamp_limit)},
    )
    return grad_x, grad_weight if weight is not None else absent("float32")
