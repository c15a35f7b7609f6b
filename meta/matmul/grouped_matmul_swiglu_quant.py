"""npu_grouped_matmul_swiglu_quant and _v2: what may be passed, and what comes back.

x (m, k) and weight (E, k, n) are int8 and int8, int8 and int4, or, in _v2, int4 and int4, which comes as int32 along
the last dimension. Scales of int8 weights are (E, n), those of int4 weights packed parameters (E, n) or, for int8 x,
(E, G, n), with an assist matrix (E, n) that holds ``8 * sum(weight * scale)``; it is the bias of the first version.

Eager calls take weights in FRACTAL_NZ: the first version all weights, _v2 those of int8.
What Ascend 950 takes is in ``grouped_matmul_swiglu_quant_950``.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from graph_quant.chip import A2_A3_950, ASCEND_950
from graph_quant.destination import INT4, INT8, find
from graph_quant.meta.matmul.grouped_matmul_swiglu_quant_950 import GroupedSwigluQuantPlan, plan_950
from graph_quant.meta.matmul.shapes import is_transposed
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import FLOATS, ND, NZ, Rules, Size, statically_known_true
from graph_quant.reference.matmul import grouped_matmul_swiglu_quant as reference
from torch import Tensor

_FORMS = {
    (torch.int8, torch.int8): "a8w8",
    (torch.int8, torch.int32): "a8w4",
    (torch.int32, torch.int32): "a4w4",
}
# The dtypes between product and activation that torch_npu accepts: int8, float16, float32, bfloat16. The document
# allows only 0 on A2 and A3, and has an example with float16; kernels there ignore it.
_IGNORED = (None, 0, 1, 5, 6, 15)
_WIDEST, _DEEPEST, _DEEPEST_INT4, _MOST_GROUPS = 10240, 65535, 19999, 1024


@operator("npu_grouped_matmul_swiglu_quant", reference=reference.grouped_matmul_swiglu_quant)
def grouped_matmul_swiglu_quant(
    rules: Rules,
    x: Tensor,
    weight: Tensor,
    group_list: Tensor,
    weight_scale: Tensor,
    x_scale: Tensor,
    bias: Tensor | None,
    offset: Tensor | None,
) -> Plan:
    """The plan of a call; group_list holds the end of each group."""
    rules.require(offset is None, lambda: "offset must be None, got a tensor")
    rules.dtype("x", x, (torch.int8,))
    rules.format("weight", weight, NZ)
    results = _results(rules, x, weight, weight_scale, x_scale, group_list, bias, "bias")
    rules.format("x", x, ND)
    return Plan((*results, Result((), torch.float32)))


@operator("npu_grouped_matmul_swiglu_quant_v2", reference=reference.grouped_matmul_swiglu_quant_v2, chips=A2_A3_950)
def grouped_matmul_swiglu_quant_v2(
    rules: Rules,
    x: Tensor,
    weight: Sequence[Tensor],
    weight_scale: Sequence[Tensor],
    x_scale: Tensor,
    group_list: Tensor,
    smooth_scale: Tensor | None,
    weight_assist_matrix: Sequence[Tensor] | None,
    bias: Tensor | None,
    dequant_mode: int | None,
    dequant_dtype: int | None,
    quant_mode: int | None,
    quant_dtype: int | None,
    group_list_type: int | None,
    tuning_config: Sequence[int] | None,
    x_dtype: int | None,
    weight_dtype: int | None,
    weight_scale_dtype: int | None,
    x_scale_dtype: int | None,
) -> GroupedSwigluQuantPlan:
    """The plan of a call; lists hold one tensor, and group_list_type 1 is the number of rows of each group."""
    if rules.chip is not ASCEND_950:
        rules.refuse_950(
            x_dtype=x_dtype,
            weight_dtype=weight_dtype,
            weight_scale_dtype=weight_scale_dtype,
            x_scale_dtype=x_scale_dtype,
        )
    for name, tensors in (("weight", weight), ("weight_scale", weight_scale)):
        if len(tensors) != 1:
            rules.refuse(f"{name} must have one tensor, got {len(tensors)}")
    rules.require(bias is None, lambda: "bias must be None, got a tensor")
    if rules.chip is ASCEND_950:
        for name, value in (("smooth_scale", smooth_scale), ("weight_assist_matrix", weight_assist_matrix)):
            if value is not None and len(value):
                rules.refuse(f"{name} must be None on Ascend 950, got a tensor")
        return plan_950(
            rules,
            x,
            weight,
            weight_scale,
            x_scale,
            group_list,
            (dequant_mode or 0, quant_mode or 0),
            dequant_dtype,
            quant_dtype,
            group_list_type or 0,
            tuning_config,
            (x_dtype, weight_dtype),
            (weight_scale_dtype, x_scale_dtype),
        )
    rules.require(not quant_mode, lambda: f"quant_mode must be 0, got {quant_mode}")
    # int8 and float32 are 0 in the operator's document; int8 is 1 in its schema, and float32 is 6 in torch.
    rules.one_of("dequant_dtype", dequant_dtype, _IGNORED)
    is_int8 = quant_dtype in (None, 0) or find(quant_dtype) is INT8
    rules.require(is_int8, lambda: f"quant_dtype must be 0 or int8, got {quant_dtype}")
    rules.require(group_list_type in (None, 0, 1), lambda: f"group_list_type must be 0 or 1, got {group_list_type}")
    assist = list(weight_assist_matrix or ())
    rules.require(len(assist) < 2, lambda: f"weight_assist_matrix must have one tensor, got {len(assist)}")
    matrix = assist[0] if assist else None
    rules.not_empty("x", x)
    results = _results(rules, x, weight[0], weight_scale[0], x_scale, group_list, matrix, "weight_assist_matrix[0]")
    a8w4 = x.dtype == torch.int8 and weight[0].dtype == torch.int32
    per_group = 1 if a8w4 and weight_scale[0].dim() == 3 else 0
    rules.require(
        (dequant_mode or 0) == per_group,
        lambda: f"dequant_mode must be {per_group} for such a weight_scale, got {dequant_mode}",
    )
    if smooth_scale is not None:
        rules.require(x.dtype == torch.int32, lambda: f"smooth_scale must be None for {x.dtype} x, got a tensor")
        rules.dtype("smooth_scale", smooth_scale, (torch.float32,))
        rules.rank("smooth_scale", smooth_scale, 1, 2)
        half = results[0].shape[1]
        rules.shape("smooth_scale", smooth_scale, (weight[0].size(0), half)[: smooth_scale.dim()])
    if weight[0].dtype == torch.int8:
        _check_blocks(rules, weight[0])
    else:
        rules.format("weight[0]", weight[0], ND, NZ)
    return GroupedSwigluQuantPlan(results)


def _check_blocks(rules: Rules, weight: Tensor) -> None:
    """Require int8 weights in FRACTAL_NZ, of whole blocks."""
    if rules.format("weight[0]", weight, NZ, why=" for int8 weights") is NZ and weight.dim() == 3:
        for dim, of in ((1, 16), (2, 32)):
            rules.multiple(f"weight[0].size({dim})", weight.size(dim), of, " for int8 in FRACTAL_NZ")


def _results(
    rules: Rules,
    x: Tensor,
    weight: Tensor,
    weight_scale: Tensor,
    x_scale: Tensor,
    group_list: Tensor,
    assist: Tensor | None,
    assist_name: str,
) -> tuple[Result, Result]:
    pair = (x.dtype, weight.dtype)
    rules.require(
        pair in _FORMS,
        lambda: (
            f"x and weight must be int8 and int8, int8 and int32 (int4), or both int32, got {pair[0]} and {pair[1]}"
        ),
    )
    form = _FORMS[pair]
    rules.rank("x", x, 2)
    rules.rank("weight", weight, 3, why=", its format is what npu_format_cast made it")
    depth = x.size(1) * (INT4.packing if form == "a4w4" else 1)
    width = weight.size(2) * (1 if form == "a8w8" else INT4.packing)
    rules.at_least("k", depth, 1)
    rules.equal("weight.size(1)", weight.size(1), "k", depth)
    one_number = statically_known_true(weight.size(1) * weight.size(2) == 1)
    if form != "a8w8" and is_transposed(weight) and not one_number:
        rules.refuse(f"weight of int4 must not be a transposed view, got strides {list(weight.stride())}")
    rules.require(width % 2 == 0, lambda: f"n must be even, got {width}")
    rules.require(width <= _WIDEST, lambda: f"n must be at most {_WIDEST}, got {width}")
    deepest = _DEEPEST if form == "a8w8" else _DEEPEST_INT4
    rules.require(depth <= deepest, lambda: f"k must be at most {deepest}, got {depth}")
    _check_scale(rules, form, weight, weight_scale, depth, width)
    if form == "a8w4":
        if assist is None:
            rules.refuse(f"{assist_name.partition('[')[0]} must be given for int4 weights, got None")
        rules.dtype(assist_name, assist, (torch.float32,))
        rules.shape(assist_name, assist, (weight.size(0), width))
    else:
        rules.require(
            assist is None, lambda: f"{assist_name.partition('[')[0]} must be None for {pair[1]} weights, got a tensor"
        )
    rules.dtype("x_scale", x_scale, (torch.float32,))
    rules.shape("x_scale", x_scale, (x.size(0),))
    rules.dtype("group_list", group_list, (torch.int64,))
    rules.rank("group_list", group_list, 1)
    rules.at_least("group_list.size(0)", group_list.size(0), 1)
    most = group_list.size(0) <= weight.size(0)
    rules.require(
        most, lambda: f"group_list.size(0) must be at most the experts, {weight.size(0)}, got {group_list.size(0)}"
    )
    rules.require(
        weight.size(0) <= _MOST_GROUPS, lambda: f"weight.size(0) must be at most {_MOST_GROUPS}, got {weight.size(0)}"
    )
    return Result((x.size(0), width // 2), torch.int8), Result((x.size(0),), torch.float32)


def _check_scale(rules: Rules, form: str, weight: Tensor, scale: Tensor, depth: Size, width: Size) -> None:
    allowed = FLOATS if form == "a8w8" else (torch.int64, torch.uint64)
    rules.dtype("weight_scale", scale, allowed, f" for {weight.dtype} weights")
    rules.rank("weight_scale", scale, 2, 3 if form == "a8w4" else None)
    groups = (scale.size(1),) if scale.dim() == 3 else ()
    rules.shape("weight_scale", scale, (weight.size(0), *groups, width))
    for count in groups:
        rules.at_least("weight_scale.size(1)", count, 1)
        rules.require(
            depth % count == 0, lambda: f"weight_scale.size(1) must divide k, got {scale.size(1)} and {depth}"
        )
