"""npu_dynamic_quant_asymmetric becomes DynamicQuantV2, which quantises asymmetrically by token."""

from __future__ import annotations

import torch
from graph_quant.converters import dynamic
from graph_quant.meta.dynamic_quant_asymmetric import check
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import Tensor

OPERATOR = torch.ops.npu.npu_dynamic_quant_asymmetric.default


def _by_token(x: Tensor, smooth: Tensor | None, groups: Tensor | None, dst_type: int) -> tuple[Tensor, ...]:
    quantised: tuple[Tensor, ...] = ge.DynamicQuantV2(x, smooth, groups, dst_type=dst_type)
    return quantised


convert = dynamic.converter(_by_token, check, is_symmetrical=False)
