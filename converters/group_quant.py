"""npu_group_quant becomes GroupQuant, and for int4 the three nodes that pack its result."""

from __future__ import annotations

from typing import Any

import torch
from graph_quant.converters.lowering import specs, stored
from graph_quant.meta.group_quant import check
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import Tensor

OPERATOR = torch.ops.npu.npu_group_quant.default


def convert(
    x: Tensor,
    scale: Tensor,
    group_index: Tensor,
    *,
    offset: Tensor | None = None,
    dst_dtype: torch.dtype | None = None,
    meta_outputs: Any = None,  # noqa: ARG001
) -> Tensor:
    """The GE nodes of one call."""
    destination = check(**specs(x=x, scale=scale, group_index=group_index, offset=offset), dst_dtype=dst_dtype)
    y = ge.GroupQuant(x, scale, group_index, offset, dst_type=destination.ge_attr)
    return stored(y, destination, leading=[0])
