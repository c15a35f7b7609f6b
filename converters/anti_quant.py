"""npu_anti_quant becomes AscendAntiQuantV2; int4 that arrive as int32 are unpacked by Bitcast and Reshape."""

from __future__ import annotations

from typing import Any

import torch
from graph_quant.converters.lowering import specs, unpacked
from graph_quant.meta.anti_quant import check
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import Tensor

OPERATOR = torch.ops.npu.npu_anti_quant.default


def convert(
    x: Tensor,
    scale: Tensor,
    *,
    offset: Tensor | None = None,
    dst_dtype: int | None = None,
    src_dtype: int | None = None,
    meta_outputs: Any = None,  # noqa: ARG001
) -> Tensor:
    """The GE nodes of one call."""
    plan = check(**specs(x=x, scale=scale, offset=offset), dst_dtype=dst_dtype, src_dtype=src_dtype)
    elements = unpacked(x, x.rank) if plan.int4 else x
    y = ge.AscendAntiQuantV2(elements, scale, offset, dst_type=plan.output.ge_attr)
    y.desc.dtype = plan.output.ge_desc
    return y
