"""aten._grouped_mm, by which transformers multiplies the rows of each expert, becomes GroupedMatmul.

Two of its forms do: rows (m, k) in groups that end at ``offs`` with one matrix (k, n) for each group, and, the gradient
of those matrices, columns of (m, k) and rows of (k, n) in such groups. In other precisions than bfloat16, transformers
compiles an operator of its own instead, which is decomposed into the same.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from graph_quant.converters.decompositions import decomposes_outside
from graph_quant.converters.lowering import absent, converts
from graph_quant.ge import OF_DESC
from torch import Tensor as TorchTensor
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import DataType, Tensor

_NOT_QUANTISED, _CUMULATIVE, _ONE_RESULT = -1, 0, 3
# GroupedMatmul's group_type, by the ranks of the operands.
_GROUP_TYPES = {(2, 3): 0, (2, 2): 2}
_FORMS = "aten._grouped_mm is lowered for one matrix in groups, times a matrix for each or another in groups, alone"


# Since torch 2.8.
_OVERLOADS = (torch.ops.aten._grouped_mm.default,) if hasattr(torch.ops.aten, "_grouped_mm") else ()


@converts(*_OVERLOADS)
def grouped_mm(
    x: Tensor,
    mat2: Tensor,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    meta_outputs: Any = None,  # noqa: ARG001
) -> Tensor:
    """The GE nodes of one call."""
    group_type = _GROUP_TYPES.get((x.rank, mat2.rank))
    if offs is None or group_type is None:
        raise NotImplementedError(_FORMS)
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
        group_type=group_type,
        group_list_type=_CUMULATIVE,
        act_type=0,
        tuning_config=[0],
    )
    result.desc.dtype = x.desc.dtype
    return result


@decomposes_outside("transformers::grouped_mm_fallback")
def grouped_mm_fallback(input: TorchTensor, weight: TorchTensor, offs: TorchTensor) -> TorchTensor:  # noqa: A002
    """The products. Rows after the last group are zero; the device does not write them."""
    return _zero_after_last_group(_products(input, weight, offs), offs)


@decomposes_outside("transformers::grouped_mm_fallback_backward")
def grouped_mm_fallback_backward(
    input: TorchTensor,  # noqa: A002
    weight: TorchTensor,
    offs: TorchTensor,
    grad_output: TorchTensor,
) -> tuple[TorchTensor, TorchTensor]:
    """The gradients of the rows and of the matrices."""
    return _zero_after_last_group(_products(grad_output, weight.mT, offs), offs), _products(input.mT, grad_output, offs)


def _products(x: TorchTensor, mat2: TorchTensor, ends: TorchTensor) -> TorchTensor:
    """npu_grouped_matmul in place of aten._grouped_mm, whose meta function supports bfloat16 alone."""
    (result,) = torch.ops.npu.npu_grouped_matmul.default(
        [x], [mat2], group_list=ends.long(), split_item=_ONE_RESULT, group_type=_GROUP_TYPES[x.dim(), mat2.dim()]
    )
    return cast(TorchTensor, result)


def _zero_after_last_group(rows: TorchTensor, ends: TorchTensor) -> TorchTensor:
    positions = torch.arange(rows.size(0), dtype=ends.dtype, device=rows.device)
    return torch.where((positions < ends[-1]).unsqueeze(-1), rows, 0)
