"""npu_swiglu_quant: SwiGLU, smooth scales per group, and quantisation.

With s the SwiGLU of a row in float32, and a rounding after each operation:

* dynamic: ``v = s * smooth_scales``, ``scale = 127 / absmax(v)``, for int4 ``7 / absmax(v)``, and
  ``y = rint(v * scale)``. The scale is the multiplier, the inverse of what other operators return; it is infinite for a
  row of zeros;
* static: ``y = rint(s * smooth_scales + offsets)``; the scale is zero.

Rows after the last group are quantised without smooth_scales and offsets. Two int4 are packed into an int8.

On Ascend 950 absmax is at least 1e-8, so that the scale of a row of zeros is finite.
"""

from __future__ import annotations

import torch
from graph_quant import chip, int4
from graph_quant.chip import A2_A3_950
from graph_quant.destination import INT8, Destination, element_destination
from graph_quant.ge import kernel
from graph_quant.reference.activation.activation_functions import apply_swiglu
from graph_quant.reference.grouping import owners
from graph_quant.reference.rounding import saturate
from torch import Tensor

_OP = "npu_swiglu_quant"
_LEAST_950 = 1e-8


def swiglu_quant(
    x: Tensor,
    smooth_scales: Tensor,
    offsets: Tensor | None,
    group_index: Tensor | None,
    activate_left: bool,
    quant_mode: int,
    group_list_type: int,
    destination: Destination = INT8,
) -> tuple[Tensor, Tensor]:
    """The quantised rows and their multipliers."""
    leading, height, width = x.shape[:-1], x.shape[:-1].numel(), x.size(-1) // 2
    rows = apply_swiglu(x.reshape(height, x.size(-1)).float(), activate_left, 0, 0.0, 1.0, 0.0)
    shift = None if quant_mode else offsets
    if group_index is None:
        scaled = rows * _as_matrix(smooth_scales)[0]
        scaled = scaled if shift is None else scaled + _as_matrix(shift)[0]
    else:
        owner = owners(_OP, "group_index", group_index, group_list_type, group_index.size(0), height)
        group = owner.clamp(min=0)
        scaled = rows * _as_matrix(smooth_scales).index_select(0, group)
        scaled = scaled if shift is None else scaled + _as_matrix(shift).index_select(0, group)
        scaled = torch.where((owner >= 0).unsqueeze(-1), scaled, rows)
    if quant_mode:
        largest = scaled.abs().amax(-1, keepdim=True)
        largest = largest.clamp(min=_LEAST_950) if chip.is_950() else largest
        # torch computes scalar / tensor as scalar * reciprocal, which rounds twice.
        scale = torch.full_like(largest, destination.high) / largest
        scaled = scaled * scale
    else:
        scale = scaled.new_zeros((height, 1))
    y = saturate(scaled, destination).reshape(*leading, width)
    return int4.pack_pairs(y) if destination.is_packed else y, scale.reshape(leading)


def _as_matrix(parameter: Tensor) -> Tensor:
    return parameter.unsqueeze(-1) if parameter.dim() == 1 else parameter


@kernel("SwiGluQuant", flops=8, packs=True, chips=A2_A3_950)
def swiglu_quant_node(
    x: Tensor,
    smooth_scales: Tensor,
    offsets: Tensor | None = None,
    group_index: Tensor | None = None,
    *,
    activate_left: bool = False,
    quant_mode: str = "dynamic",
    group_list_type: int = 0,
    dst_type: int = INT8.ge_attr,
) -> tuple[Tensor, Tensor]:
    mode, destination = int(quant_mode == "dynamic"), element_destination(dst_type)
    return swiglu_quant(x, smooth_scales, offsets, group_index, activate_left, mode, group_list_type, destination)
