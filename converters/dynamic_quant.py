"""npu_dynamic_quant becomes DynamicQuant, which quantises symmetrically by token.

DynamicQuantV2 is asymmetric on A2 and A3, whatever its attribute says.
"""

from __future__ import annotations

import torch
from graph_quant.converters import dynamic
from graph_quant.meta.dynamic_quant import check
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import Tensor

OPERATOR = torch.ops.npu.npu_dynamic_quant.default


def _by_token(x: Tensor, smooth: Tensor | None, groups: Tensor | None, dst_type: int) -> tuple[Tensor, ...]:
    quantised: tuple[Tensor, ...] = ge.DynamicQuant(x, smooth, groups, dst_type=dst_type)
    return quantised


convert = dynamic.converter(_by_token, check, is_symmetrical=True)
