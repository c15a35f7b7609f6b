"""The step that the two dynamic quantisations share."""

from __future__ import annotations

from typing import Any

from graph_quant.meta.dynamic import Plan
from graph_quant.reference.dynamic import check_index
from torch import Tensor


def inputs(x: Tensor, plan: Plan, options: dict[str, Any]) -> tuple[Any, ...]:
    """What the reference takes after ``x``, with the values of the index checked."""
    group_index = options.get("group_index")
    if group_index is not None:
        check_index(plan.op, x, group_index)
    return options.get("smooth_scales"), group_index, plan.destination, plan.mode, plan.dst_type_max
