"""GroupedMatmulSwigluQuantV2: maps the node's lists to arguments of npu_grouped_matmul_swiglu_quant_v2."""

from __future__ import annotations

from collections.abc import Sequence

from graph_quant.destination import INT8
from graph_quant.ge import CONTRACTION, kernel
from graph_quant.reference.matmul.grouped_matmul_swiglu_quant import grouped_matmul_swiglu_quant_v2
from torch import Tensor


@kernel(
    "GroupedMatmulSwigluQuantV2",
    flops=CONTRACTION,
    idle=("tuning_config", "dequant_mode"),
    only={"quant_dtype": (INT8.ge_attr,)},
)
def grouped_matmul_swiglu_quant_node(
    x: Tensor,
    x_scale: Tensor,
    group_list: Tensor,
    weight: Sequence[Tensor],
    weight_scale: Sequence[Tensor],
    weight_assist_matrix: Sequence[Tensor],
    bias: Tensor | None = None,  # noqa: ARG001
    smooth_scale: Tensor | None = None,
    *,
    group_list_type: int = 0,
) -> tuple[Tensor, Tensor]:
    assist = [matrix for matrix in weight_assist_matrix if matrix.dim() > 1]
    tensors = x, list(weight), list(weight_scale), x_scale, group_list
    return grouped_matmul_swiglu_quant_v2(*tensors, smooth_scale, assist or None, group_list_type)
