"""aten._grouped_mm, by which transformers multiplies the rows of each expert, becomes GroupedMatmul.

Of its forms this is the one of experts: rows (m, k) in groups that end at ``offs``, one matrix (k, n) for each group.
"""

from __future__ import annotations

from typing import Any

import torch
from graph_quant.converters.lowering import absent, converts
from graph_quant.ge import OF_DESC
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import DataType, Tensor

_NOT_QUANTISED, _BY_ROWS, _CUMULATIVE, _ONE_RESULT = -1, 0, 0, 3


@converts(torch.ops.aten._grouped_mm.default)
def grouped_mm(
    x: Tensor,
    mat2: Tensor,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    meta_outputs: Any = None,  # noqa: ARG001
) -> Tensor:
    """The GE nodes of one call."""
    if offs is None or (x.rank, mat2.rank) != (2, 3):
        raise NotImplementedError("aten._grouped_mm is lowered for a matrix in groups and one matrix for each alone")
    if bias is not None or (out_dtype is not None and out_dtype != x.meta.dtype):
        raise NotImplementedError("aten._grouped_mm is lowered without bias, and to the dtype of its inputs alone")
    half = absent("float16")
    (result,) = ge.GroupedMatmul(
        [x],
        [mat2],
        [half if OF_DESC[x.desc.dtype] == "float16" else absent("float32")],
        [absent("uint64")],
        [absent("float32")],
        [half],
        [half],
        ge.Cast(offs, dst_type=DataType.DT_INT64),
        None,
        split_item=_ONE_RESULT,
        dtype=_NOT_QUANTISED,
        transpose_weight=False,
        transpose_x=False,
        group_type=_BY_ROWS,
        group_list_type=_CUMULATIVE,
        act_type=0,
        tuning_config=[0],
    )
    result.desc.dtype = x.desc.dtype
    return result
