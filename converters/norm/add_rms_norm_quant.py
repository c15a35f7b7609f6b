"""npu_add_rms_norm_quant becomes AddRmsNormQuant, or with one scale for all elements AddRmsNormQuantV2.

TorchAir has a function for neither. Scales of float16 and zero points of int8 are widened first, as eagerly.
"""

from __future__ import annotations

import torch
from graph_quant.chip import ASCEND_950
from graph_quant.converters.lowering import as_float, lowers, stored
from graph_quant.destination import HIFLOAT8, INT8, INT32, Destination
from graph_quant.ge import TO_ATTRIBUTE, TO_DESC
from graph_quant.meta.norm.add_rms_norm_quant import AddNormQuantPlan
from torchair._ge_concrete_graph import ge_apis as ge
from torchair._ge_concrete_graph.compat_ir import ge_op
from torchair.ge import attr
from torchair.ge._ge_graph import Tensor


@lowers("npu_add_rms_norm_quant")
def lower(
    plan: AddNormQuantPlan,
    x1: Tensor,
    x2: Tensor,
    gamma: Tensor,
    scales1: Tensor,
    zero_points1: Tensor | None,
    beta: Tensor | None,
    scales2: Tensor | None,
    zero_points2: Tensor | None,
    epsilon: float,
    div_mode: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """The GE nodes of one call; without a second scale y2 is zeros, because the node does not write it."""
    if plan.per_tensor:
        assert beta is not None
        gamma, beta = _row(gamma), _row(beta)
    is_950 = plan.chip is ASCEND_950
    inputs = {
        "x1": x1,
        "x2": x2,
        "gamma": gamma,
        "scales1": as_float(scales1) if scales1.meta.dtype == torch.float16 and not is_950 else scales1,
        "scales2": scales2,
        "zero_points1": _widened(zero_points1),
        "zero_points2": zero_points2,
        "bias" if plan.per_tensor else "beta": beta,
    }
    attributes = {
        "epsilon": attr.Float(epsilon),
        "div_mode": attr.Bool(div_mode),
    }
    attributes["dst_type"] = attr.Int(plan.destination.ge_attr)
    results = ge_op(
        op_type="AddRmsNormQuantV2" if plan.per_tensor else "AddRmsNormQuant",
        inputs=inputs,
        outputs=["y1", "y2", "x", "resOut"] if plan.per_tensor else ["y1", "y2", "x"],
        attrs=attributes,
    )
    y1, y2, x = results[:3]
    leading = [0] * (x1.rank - 1)
    if plan.destination is INT8:
        for y in (y1, y2):
            y.desc.dtype = INT8.ge_desc
        return y1, y2 if scales2 is not None else _zeros(y1), x
    y1 = stored(y1, plan.destination, leading)
    return y1, stored(y2, plan.destination, leading) if scales2 is not None else _narrow_zeros(y1, plan.destination), x


def _widened(zero_points: Tensor | None) -> Tensor | None:
    if zero_points is None or zero_points.meta.dtype != torch.int8:
        return zero_points
    wide = ge.Cast(zero_points, dst_type=INT32.ge_attr)
    wide.desc.dtype = INT32.ge_desc
    return wide


def _zeros(y: Tensor) -> Tensor:
    zeros = ge.ZerosLike(y)
    zeros.desc.dtype = y.desc.dtype
    return zeros


def _narrow_zeros(y: Tensor, destination: Destination) -> Tensor:
    """Zeros like ``y``, which is float8, or HiFloat8 in uint8: ZerosLike takes bytes."""
    if destination is HIFLOAT8:
        return _zeros(y)
    return _bits(_zeros(_bits(y, "uint8")), destination.name)


def _bits(x: Tensor, dtype: str) -> Tensor:
    cast = ge.Bitcast(x, type=TO_ATTRIBUTE[dtype])
    cast.desc.dtype = TO_DESC[dtype]
    return cast


def _row(row: Tensor) -> Tensor:
    if row.rank == 1:
        return row
    flat = ge.Reshape(row, [-1])
    flat.desc.dtype = row.desc.dtype
    return flat
