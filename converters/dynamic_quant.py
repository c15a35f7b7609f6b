"""npu_dynamic_quant becomes DynamicQuant, which quantises symmetrically by token.

DynamicQuantV2 is asymmetric on A2 and A3, whatever its attribute says.
"""

from __future__ import annotations

from typing import Any

import torch
from graph_quant.converters import dynamic
from graph_quant.converters.lowering import spec, specs
from graph_quant.meta.dynamic_quant import check
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import Tensor

OPERATOR = torch.ops.npu.npu_dynamic_quant.default


def _by_token(x: Tensor, smooth: Tensor | None, groups: Tensor | None, dst_type: int) -> tuple[Tensor, ...]:
    quantised: tuple[Tensor, ...] = ge.DynamicQuant(x, smooth, groups, dst_type=dst_type)
    return quantised


def convert(
    x: Tensor,
    *,
    smooth_scales: Tensor | None = None,
    group_index: Tensor | None = None,
    dst_type: int | None = None,
    quant_mode: str = "pertoken",
    dst_type_max: float = 0.0,
    meta_outputs: Any = None,  # noqa: ARG001
) -> tuple[Tensor, ...]:
    """The GE nodes of one call."""
    plan = check(
        spec(x),
        **specs(smooth_scales=smooth_scales, group_index=group_index),
        dst_type=dst_type,
        quant_mode=quant_mode,
        dst_type_max=dst_type_max,
    )
    return dynamic.lower(_by_token, True, plan, x, smooth_scales, group_index)
