"""npu_grouped_matmul becomes GroupedMatmul.

The node requires every list input: an omitted one is an empty tensor of the dtype that the kernel would read.
int4 operands arrive as int32 and are unpacked by Bitcast and Reshape; weights packed along k are transposed for that,
and transposed back. The attribute dtype is the result dtype of int8 and int4 products, where -1 means int8.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch
from graph_quant.converters.lowering import absent, lowers, swapped_last_two, unpacked
from graph_quant.converters.matmul.grouped_matmul_950 import lower_operands
from graph_quant.converters.matmul.quant_matmul import packed_scale
from graph_quant.destination import INT4
from graph_quant.ge import OF_DESC, TO_DESC
from graph_quant.meta.matmul.grouped_layout import PAIRS
from graph_quant.meta.matmul.grouped_matmul import GroupedMatmulPlan
from graph_quant.meta.operator import Result
from graph_quant.reference.matmul.grouped_products import A4W4, A8W4, A8W8, ANTIQUANT, ANTIQUANT_950, QUANTISED_950
from graph_quant.reference.matmul.quant_matmul_950 import INT8
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import DataType, Tensor

Tensors = Sequence[Tensor]
_DTYPES = {torch.int8: -1, torch.float16: 0, torch.bfloat16: 1, torch.int32: 2, torch.float32: 3}


@lowers("npu_grouped_matmul")
def lower(
    plan: GroupedMatmulPlan,
    x: Tensors,
    weight: Tensors,
    bias: Tensors | None,
    scale: Tensors | None,
    offset: Tensors | None,
    antiquant_scale: Tensors | None,
    antiquant_offset: Tensors | None,
    per_token_scale: Tensors | None,
    group_list: Tensor | None,
    split_item: int | None,
    tuning_config: Sequence[int] | None,
) -> list[Tensor]:
    """The GE nodes of one call."""
    if plan.narrow is not None:
        x, weight, scale, per_token_scale = lower_operands(plan.narrow, x, weight, scale, per_token_scale)
    else:
        weight = [_weight(operand, plan) for operand in weight]
        scale = [packed_scale(tensor) for tensor in scale or ()]
    none = _Absent()
    half = _dtype(x[0]) if plan.form in (ANTIQUANT, ANTIQUANT_950) else "float16"
    results = ge.GroupedMatmul(
        [unpacked(operand, operand.rank) for operand in x] if plan.form == A4W4 else list(x),
        list(weight),
        list(bias or ()) or none(_bias_dtype(plan, x[0])),
        list(scale or ()) or none("uint64"),
        list(offset or ()) or none("float32"),
        list(antiquant_scale or ()) or none(half),
        list(antiquant_offset or ()) or none(half),
        group_list,
        per_token_scale[0] if per_token_scale else None,
        split_item=split_item or 0,
        dtype=_DTYPES[plan.dtype] if plan.form in (A8W8, A8W4, A4W4, QUANTISED_950) else -1,
        transpose_weight=False,
        transpose_x=False,
        group_type=plan.cut,
        group_list_type=plan.list_type,
        act_type=plan.activation,
        tuning_config=list(tuning_config or [0]),
    )
    for result in results:
        result.desc.dtype = TO_DESC[str(plan.dtype).removeprefix("torch.")]
    return list(results)


@lowers("npu_grouped_matmul.List")
def lower_list(
    plan: GroupedMatmulPlan,
    x: Tensors,
    weight: Tensors,
    bias: Tensors | None,
    scale: Tensors | None,
    antiquant_scale: Tensors | None,
    antiquant_offset: Tensors | None,
    group_list: Sequence[int] | None,
    split_item: int | None,
) -> list[Tensor]:
    """The same node. The ends of the groups are a constant; for several results x is split before it."""
    ends = None
    if len(plan.results) > 1 and group_list:
        sizes = [result.shape[0] for result in plan.results if isinstance(result, Result)]
        dtype = x[0].desc.dtype
        x = ge.SplitV(x[0], sizes, 0, num_split=len(sizes))
        for part in x:
            part.desc.dtype = dtype
        plan = dataclasses.replace(plan, cut=PAIRS)
    elif group_list:
        ends = ge.Const(list(group_list), dtype=DataType.DT_INT64)
    return lower(plan, x, weight, bias, scale, None, antiquant_scale, antiquant_offset, None, ends, split_item, None)


class _Absent:
    """Empty tensors for omitted lists; one node for each dtype."""

    def __init__(self) -> None:
        self._nodes: dict[str, Tensor] = {}

    def __call__(self, dtype: str) -> list[Tensor]:
        if dtype not in self._nodes:
            self._nodes[dtype] = absent(dtype)
        return [self._nodes[dtype]]


def _dtype(tensor: Tensor) -> str:
    return OF_DESC[tensor.desc.dtype]


def _bias_dtype(plan: GroupedMatmulPlan, x: Tensor) -> str:
    if plan.form == A8W8 or (plan.narrow is not None and plan.narrow.x == INT8):
        return "int32"
    if plan.narrow is not None:
        return "float32"
    return {"float16": "float16", "int32": "int32"}.get(_dtype(x), "float32")


def _weight(weight: Tensor, plan: GroupedMatmulPlan) -> Tensor:
    if weight.meta.dtype != torch.int32:
        return weight
    if not plan.packed_along_k:
        return unpacked(weight, weight.rank)
    elements = swapped_last_two(unpacked(swapped_last_two(weight, weight.rank), weight.rank), weight.rank)
    elements.desc.dtype = INT4.ge_desc
    return elements
