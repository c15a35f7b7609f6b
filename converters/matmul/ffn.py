"""npu_ffn becomes FFN, with the rows of each expert as a constant and packed scales as UINT64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from graph_quant.converters.lowering import lowers, one_node
from graph_quant.converters.matmul.quant_matmul import packed_scale
from graph_quant.converters.quant import trans_quant_param
from graph_quant.ge import TO_DESC
from graph_quant.meta.matmul.ffn import FfnPlan
from graph_quant.reference.matmul.ffn import QUANT
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import DataType, Tensor


@lowers("npu_ffn")
def lower(
    plan: FfnPlan,
    expert_tokens: Sequence[int] | None,
    expert_tokens_index: Sequence[int] | None,
    deq_scale1: Tensor | None,
    deq_scale2: Tensor | None,
    inner_precise: int | None,
    **others: Any,
) -> Tensor:
    """The GE nodes of one call."""
    tokens = expert_tokens or expert_tokens_index
    others |= {
        "expert_tokens": ge.Const(list(tokens), dtype=DataType.DT_INT64) if tokens else None,
        "deq_scale1": _deq_scale(deq_scale1),
        "deq_scale2": _deq_scale(deq_scale2),
        "inner_precise": inner_precise or 0,
        "output_dtype": -1 if plan.form != QUANT else int(plan.dtype == torch.bfloat16),
        "tokens_index_flag": bool(expert_tokens_index),
    }
    y: Tensor = one_node("FFN")(plan, **others)
    y.desc.dtype = TO_DESC[str(plan.dtype).removeprefix("torch.")]
    return y


def _deq_scale(scale: Tensor | None) -> Tensor | None:
    if scale is None or scale.meta.dtype == torch.bfloat16:
        return scale
    return trans_quant_param.quant_params(scale, None) if scale.meta.dtype == torch.float32 else packed_scale(scale)
