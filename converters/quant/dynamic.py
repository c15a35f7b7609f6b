"""The lowering that the two dynamic quantisations share.

Kernels of A2 and A3 quantise by token alone. Per-tensor mode reshapes the input to one row, per-channel mode exchanges
the last two dimensions; other modes are refused here with a workaround. On Ascend 950 the kernel supports the modes as
attributes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graph_quant.converters.lowering import cast_to, is_static, shape_of, stored, swapped_last_two
from graph_quant.meta.quant.dynamic import DynamicPlan
from graph_quant.reference.quant.dynamic import PERCHANNEL, PERTENSOR, PERTOKEN
from graph_quant.refusals import Refusal
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import Tensor

# From (x, smooth_scales, group_index, dst_type) to the quantised tensor and its parameters.
ByToken = Callable[[Tensor, Tensor | None, Tensor | None, int], tuple[Tensor, ...]]


def nodes(
    by_token: ByToken,
    is_symmetrical: bool,
    plan: DynamicPlan,
    x: Tensor,
    smooth: Tensor | None,
    groups: Tensor | None,
) -> tuple[Tensor, ...]:
    """The GE nodes of one call; returned are the quantised tensor and its parameters."""
    if smooth is not None and smooth.meta.dtype != x.meta.dtype:
        # The documents allow another dtype in graphs, the kernel does not take it.
        smooth = cast_to(smooth, x.meta.dtype)
    if plan.mode == PERTOKEN and plan.dst_type_max == 0:
        y, *parameters = by_token(x, smooth, groups, plan.destination.ge_attr)
    elif plan.has_modes:
        y, *parameters = _by_attributes(is_symmetrical, plan, x, smooth, groups)
    else:
        _refuse_what_a2_lacks(plan, smooth)
        return (_as_one_row if plan.mode == PERTENSOR else _as_rows_of_channels)(by_token, plan, x, smooth)
    return (stored(y, plan.destination, _kept(x)), *parameters)


def _kept(x: Tensor) -> list[int]:
    """The leading dimensions of a result that has them already."""
    return [0] * (x.rank - 1)


def _by_attributes(
    is_symmetrical: bool, plan: DynamicPlan, x: Tensor, smooth: Tensor | None, groups: Tensor | None
) -> tuple[Tensor, ...]:
    y, scale, offset = ge.DynamicQuantV2(
        x,
        smooth,
        groups,
        dst_type=plan.destination.ge_attr,
        is_symmetrical=is_symmetrical,
        quant_mode=plan.mode,
        dst_type_max=plan.dst_type_max,
    )
    return (y, scale) if is_symmetrical else (y, scale, offset)


def _refuse_what_a2_lacks(plan: DynamicPlan, smooth: Any) -> None:
    if plan.dst_type_max != 0:
        problem, way_out = f"dst_type_max={plan.dst_type_max}", "leave it 0"
    elif plan.mode == PERTENSOR and smooth is not None:
        problem, way_out = "smooth_scales with quant_mode 'pertensor'", "multiply the input by them first"
    elif plan.mode == PERCHANNEL and plan.destination.is_packed:
        problem, way_out = "torch.quint4x2 with quant_mode 'perchannel'", "use torch.int8"
    else:
        return
    raise Refusal(f"{plan.op}: kernels of Ascend A2 and A3 cannot do {problem} in a graph; {way_out}, or run eagerly")


def _as_one_row(by_token: ByToken, plan: DynamicPlan, x: Tensor, _smooth: Tensor | None) -> tuple[Tensor, ...]:
    row = ge.Reshape(x, [1, -1])
    row.desc.dtype = x.desc.dtype
    y, *parameters = by_token(row, None, None, plan.destination.ge_attr)
    y.desc.dtype = plan.destination.ge_desc
    if plan.destination.is_packed and is_static(x.symsize):
        return (stored(y, plan.destination, x.symsize[:-1]), *parameters)
    y = ge.Reshape(y, shape_of(x))
    return (stored(y, plan.destination, _kept(x)), *parameters)


def _as_rows_of_channels(by_token: ByToken, plan: DynamicPlan, x: Tensor, smooth: Tensor | None) -> tuple[Tensor, ...]:
    y, *parameters = by_token(swapped_last_two(x, x.rank), smooth, None, plan.destination.ge_attr)
    y.desc.dtype = plan.destination.ge_desc
    return (stored(swapped_last_two(y, x.rank), plan.destination, _kept(x)), *parameters)
