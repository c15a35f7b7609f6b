"""npu_rms_norm_quant becomes RmsNormQuant, for which TorchAir has no function, and for int4 the nodes that pack.

On Ascend 950 it becomes RmsNormQuantV2, and npu_rms_norm_quant_v2 RmsNormQuantV3, as aclnn's functions do.
"""

from __future__ import annotations

from graph_quant.chip import ASCEND_950
from graph_quant.converters.lowering import absent, lowers, stored
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
    if plan.chip is ASCEND_950:
        y = _on_950("RmsNormQuantV2", ["y1", "y2"], plan, x, gamma, scale, offset, beta, epsilon, True)
        return stored(y, plan.destination, leading=[0] * (x.rank - 1))
    y = ge_op(
        op_type="RmsNormQuant",
        inputs={"x": x, "gamma": _row(gamma), "beta": _row(beta), "scale": scale, "offset": offset},
        outputs=["y"],
        attrs={"epsilon": attr.Float(epsilon), "dst_type": attr.Int(plan.destination.ge_attr)},
    )
    return stored(y, plan.destination, leading=[0] * (x.rank - 1))


@lowers("npu_rms_norm_quant_v2")
def lower_v2(
    plan: RmsNormQuantPlan,
    x: Tensor,
    gamma: Tensor,
    scale: Tensor,
    offset: Tensor | None,
    beta: Tensor | None,
    epsilon: float,
    div_mode: bool,
) -> tuple[Tensor, Tensor]:
    """The GE nodes of one call; rstd is not computed."""
    y = _on_950("RmsNormQuantV3", ["y1", "y2", "rstd"], plan, x, gamma, scale, offset, beta, epsilon, div_mode)
    return stored(y, plan.destination, leading=[0] * (x.rank - 1)), absent("float32")


def _on_950(
    op_type: str,
    outputs: list[str],
    plan: RmsNormQuantPlan,
    x: Tensor,
    gamma: Tensor,
    scale: Tensor,
    offset: Tensor | None,
    beta: Tensor | None,
    epsilon: float,
    div_mode: bool,
) -> Tensor:
    """The first result of a node of Ascend 950."""
    results = ge_op(
        op_type=op_type,
        inputs={
            "x": x,
            "gamma": _row(gamma),
            "scales1": scale,
            "scales2": None,
            "zero_points1": offset,
            "zero_points2": None,
            "beta": None if beta is None else _row(beta),
        },
        outputs=outputs,
        attrs={
            "epsilon": attr.Float(epsilon),
            "div_mode": attr.Bool(div_mode),
            "dst_type": attr.Int(plan.destination.ge_attr),
        },
    )
    y: Tensor = results[0]
    return y


def _row(row: Tensor) -> Tensor:
    if row.rank == 1:
        return row
    flat = ge.Reshape(row, [-1])
    flat.desc.dtype = row.desc.dtype
    return flat
