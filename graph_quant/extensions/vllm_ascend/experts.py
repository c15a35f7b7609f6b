"""The first layer of quantised experts in vllm-ascend: grouped products, SwiGLU and quantisation.

The ``grouped_matmul_swiglu_quant`` operators compute what torch_npu's of these names compute, with a ``swiglu_limit``:
above 0 it bounds the gate's argument from above, and the other half from above and below. Without ``_v2``, the kernel
for int4 weights ignores the limit, so that it must be 0 there. ``_tensor_list`` takes a matrix (k, n) for each expert.

``npu_dequant_swiglu_quant`` differs from torch_npu's in ``swiglu_mode`` 1: it takes the halves of the columns, as
mode 2 of torch_npu, bounds them only if ``clamp_limit`` is above 0, and also works without groups, for int32 x.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from graph_quant import quant_params
from graph_quant.destination import INT8
from graph_quant.extensions.reuse import plan_as
from graph_quant.meta import Plan, Result, Rules, operator
from graph_quant.meta.activation.dequant_swiglu_quant import dequant_swiglu_quant as npu_dequant_swiglu_quant
from graph_quant.meta.matmul.grouped_matmul_swiglu_quant import grouped_matmul_swiglu_quant as npu_swiglu_quant
from graph_quant.meta.matmul.grouped_matmul_swiglu_quant import grouped_matmul_swiglu_quant_v2 as npu_swiglu_quant_v2
from graph_quant.meta.rules import FLOATS
from graph_quant.reference.activation.activation_functions import CLAMPED
from graph_quant.reference.activation.dequant_swiglu_quant import swiglu_of_rows
from graph_quant.reference.grouping import ENDS
from graph_quant.reference.matmul.grouped_matmul_swiglu_quant import swiglu_of_products
from torch import Tensor

# weight_scale, activation_scale, bias, quant_scale and quant_offset.
_Parameters = tuple[Tensor | None, Tensor | None, Tensor | None, Tensor | None, Tensor | None]
_NAME = "grouped_matmul_swiglu_quant"
_LIST_DEEPEST, _LIST_WIDEST, _ALIGNED = 65535, 8192, 64


def _check_limit(rules: Rules, limit: float) -> None:
    rules.require(limit >= 0, lambda: f"swiglu_limit must be at least 0, got {limit}")


def grouped_matmul_swiglu_quant(
    x: Tensor,
    weight: Tensor,
    weight_scale: Tensor,
    x_scale: Tensor,
    group_list: Tensor,
    bias: Tensor | None,
    swiglu_limit: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """``(rows, scales, unused offset)``."""
    scales = quant_params.signed(weight_scale)
    y, scale = swiglu_of_products(_NAME, x, weight, scales, x_scale, group_list, ENDS, bias, None, swiglu_limit)
    return y, scale, torch.zeros((), dtype=torch.float32)


def grouped_matmul_swiglu_quant_tensor_list(
    x: Tensor,
    weight: list[Tensor],
    weight_scale: list[Tensor],
    x_scale: Tensor,
    group_list: Tensor,
    swiglu_limit: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """``(rows, scales, unused offset)``."""
    weights, scales = torch.stack(tuple(weight)), torch.stack(tuple(weight_scale))
    name = f"{_NAME}_weight_nz_tensor_list"
    y, scale = swiglu_of_products(name, x, weights, scales, x_scale, group_list, ENDS, None, None, swiglu_limit)
    return y, scale, torch.zeros_like(scale)


def grouped_matmul_swiglu_quant_v2(
    x: Tensor,
    weight: list[Tensor],
    weight_scale: list[Tensor],
    x_scale: Tensor,
    group_list: Tensor,
    smooth_scale: Tensor | None,
    weight_assist_matrix: list[Tensor] | None,
    group_list_type: int,
    swiglu_limit: float,
) -> tuple[Tensor, Tensor]:
    """``(rows, scales)``."""
    assist = weight_assist_matrix[0] if weight_assist_matrix else None
    smooth = smooth_scale.unsqueeze(-1) if smooth_scale is not None and smooth_scale.dim() == 1 else smooth_scale
    tensors = x, weight[0], quant_params.signed(weight_scale[0]), x_scale, group_list
    return swiglu_of_products(f"{_NAME}_v2", *tensors, group_list_type, assist, smooth, swiglu_limit)


@operator(f"_C_ascend::{_NAME}", reference=grouped_matmul_swiglu_quant)
@operator(f"_C_ascend::{_NAME}_weight_nz", reference=grouped_matmul_swiglu_quant)
def rules_of_grouped_matmul_swiglu_quant(
    rules: Rules,
    x: Tensor,
    weight: Tensor,
    weight_scale: Tensor,
    x_scale: Tensor,
    group_list: Tensor,
    bias: Tensor | None,
    offset: Tensor | None,
    swiglu_limit: float,
) -> Plan:
    """Return the plan of torch_npu's operator; check the limit."""
    _check_limit(rules, swiglu_limit)
    rules.require(
        weight.dtype != torch.int32 or swiglu_limit == 0,
        lambda: f"swiglu_limit must be 0 for int4 weights, because the kernel ignores it, got {swiglu_limit}",
    )
    return plan_as(npu_swiglu_quant, rules, x, weight, group_list, weight_scale, x_scale, bias, offset)


@operator(f"_C_ascend::{_NAME}_weight_nz_tensor_list", reference=grouped_matmul_swiglu_quant_tensor_list)
def rules_of_grouped_matmul_swiglu_quant_tensor_list(
    rules: Rules,
    x: Tensor,
    weight: Sequence[Tensor],
    weight_scale: Sequence[Tensor],
    x_scale: Tensor,
    group_list: Tensor,
    bias: Tensor | None,
    offset: Tensor | None,
    swiglu_limit: float,
) -> Plan:
    """Check a call with a matrix of int8 for each expert and return its plan."""
    for name, ignored in (("bias", bias), ("offset", offset)):
        rules.require(ignored is None, lambda: f"{name} must be None, because the kernel ignores it, got a tensor")  # noqa: B023
    rules.rank("x", x, 2)
    rules.dtype("x", x, (torch.int8,))
    rules.require(len(weight) > 0, lambda: "weight must have a tensor for each expert, got none")
    rules.equal("the tensors of weight_scale", len(weight_scale), "those of weight", len(weight))
    depth = x.size(1)
    rules.rank("weight[0]", weight[0], 2)
    width = weight[0].size(1)
    for index, (matrix, scale) in enumerate(zip(weight, weight_scale, strict=True)):
        rules.dtype(f"weight[{index}]", matrix, (torch.int8,))
        rules.shape(f"weight[{index}]", matrix, (depth, width), ("x.size(1)", "weight[0].size(1)"))
        rules.dtype(f"weight_scale[{index}]", scale, FLOATS)
        rules.dtype(f"weight_scale[{index}]", scale, (weight_scale[0].dtype,), ", the dtype of weight_scale[0]")
        rules.shape(f"weight_scale[{index}]", scale, (width,), ("weight[0].size(1)",))
    rules.require(width % 2 == 0, lambda: f"n must be even, got {width}")
    rules.require(width <= _LIST_WIDEST, lambda: f"n must be at most {_LIST_WIDEST}, got {width}")
    rules.require(depth <= _LIST_DEEPEST, lambda: f"k must be at most {_LIST_DEEPEST}, got {depth}")
    rules.dtype("x_scale", x_scale, (torch.float32,))
    rules.shape("x_scale", x_scale, (x.size(0),), ("x.size(0)",))
    rules.dtype("group_list", group_list, (torch.int64,))
    rules.rank("group_list", group_list, 1)
    fits = group_list.size(0) <= len(weight)
    rules.require(fits, lambda: f"group_list.size(0) must be at most {len(weight)}, got {group_list.size(0)}")
    _check_limit(rules, swiglu_limit)
    rows = x.size(0)
    scale_of_rows = Result((rows,), torch.float32)
    return Plan((Result((rows, width // 2), torch.int8), scale_of_rows, scale_of_rows))


@operator(f"_C_ascend::{_NAME}_v2", reference=grouped_matmul_swiglu_quant_v2)
def rules_of_grouped_matmul_swiglu_quant_v2(
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
    transpose_weight: bool,
    group_list_type: int,
    tuning_config: Sequence[int],
    swiglu_limit: float,
) -> Plan:
    """Return the plan of torch_npu's operator; check the limit."""
    _check_limit(rules, swiglu_limit)
    rules.require(not transpose_weight, lambda: "transpose_weight must be False, got True")
    tensors = x, weight, weight_scale, x_scale, group_list, smooth_scale, weight_assist_matrix, bias
    modes = dequant_mode, dequant_dtype, quant_mode, quant_dtype, group_list_type, tuning_config
    return plan_as(npu_swiglu_quant_v2, rules, *tensors, *modes, None, None, None, None)


def dequant_swiglu_quant(
    x: Tensor,
    weight_scale: Tensor | None,
    activation_scale: Tensor | None,
    bias: Tensor | None,
    quant_scale: Tensor | None,
    quant_offset: Tensor | None,
    group_index: Tensor | None,
    activate_left: bool,
    quant_mode: int,
    swiglu_mode: int,
    clamp_limit: float,
    glu_alpha: float,
    glu_bias: float,
) -> tuple[Tensor, Tensor]:
    """``(rows, scales)``."""
    parameters = weight_scale, activation_scale, bias, quant_scale, quant_offset
    if swiglu_mode == 0:
        gate = 0, 0.0, 1.0, 0.0
    else:
        gate = CLAMPED, clamp_limit if clamp_limit > 0 else math.inf, glu_alpha, glu_bias
        # The kernel for groups computes all rows, as one group.
        if group_index is None:
            return _as_one_group(x, parameters, activate_left, quant_mode, gate)
    fused = torch.compiler.is_compiling()
    return swiglu_of_rows(x, *parameters, group_index, activate_left, quant_mode, *gate, fused, INT8.ge_attr)


def _as_one_group(
    x: Tensor,
    parameters: _Parameters,
    activate_left: bool,
    quant_mode: int,
    gate: tuple[int, float, float, float],
) -> tuple[Tensor, Tensor]:
    rows = x.reshape(-1, x.size(-1))
    group_index = torch.full((1,), rows.size(0), dtype=torch.int64)
    y, scale = swiglu_of_rows(rows, *parameters, group_index, activate_left, quant_mode, *gate, False, INT8.ge_attr)
    return y.reshape(*x.shape[:-1], -1), scale.reshape(x.shape[:-1])


@operator("_C_ascend::npu_dequant_swiglu_quant", reference=dequant_swiglu_quant)
def rules_of_dequant_swiglu_quant(
    rules: Rules,
    x: Tensor,
    weight_scale: Tensor | None,
    activation_scale: Tensor | None,
    bias: Tensor | None,
    quant_scale: Tensor | None,
    quant_offset: Tensor | None,
    group_index: Tensor | None,
    activate_left: bool,
    quant_mode: int,
    swiglu_mode: int,
    clamp_limit: float,
    glu_alpha: float,
    glu_bias: float,
) -> Plan:
    """Check the gate by the extension's host code; return the plan of torch_npu's operator."""
    rules.require(swiglu_mode in (0, 1), lambda: f"swiglu_mode must be 0 or 1, got {swiglu_mode}")
    finite = math.isfinite(clamp_limit) and clamp_limit >= 0
    rules.require(finite, lambda: f"clamp_limit must be finite and at least 0, got {clamp_limit}")
    for name, value in (("glu_alpha", glu_alpha), ("glu_bias", glu_bias)):
        rules.require(math.isfinite(value), lambda: f"{name} must be finite, got {value}")  # noqa: B023
    rules.require(
        swiglu_mode == 0 or group_index is not None or x.dtype == torch.int32,
        lambda: f"x must be torch.int32 for swiglu_mode 1 without group_index, got {x.dtype}",
    )
    rules.require(
        swiglu_mode == 0 or x.size(-1) % _ALIGNED == 0,
        lambda: f"x.size(-1) must be a multiple of {_ALIGNED} for swiglu_mode 1, got {x.size(-1)}",
    )
    tensors = x, weight_scale, activation_scale, bias, quant_scale, quant_offset, group_index
    mode = CLAMPED if swiglu_mode and group_index is not None else 0
    gate = mode, max(clamp_limit, 1.0), glu_alpha, glu_bias
    return plan_as(npu_dequant_swiglu_quant, rules, *tensors, activate_left, quant_mode, None, None, None, *gate)
