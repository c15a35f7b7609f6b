"""npu_grouped_matmul: what may be passed, and what comes back.

``grouped_layout`` checks the number of tensors and their shapes, ``grouped_dtypes`` the combinations of dtypes,
``grouped_parameters`` the parameters of each weight. Quantised calls on Ascend 950 are in ``grouped_matmul_950``.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from graph_quant.chip import A2_A3_950, ASCEND_950
from graph_quant.meta.matmul.grouped_dtypes import HALVES, form_of, output_of
from graph_quant.meta.matmul.grouped_layout import (
    COLUMNS,
    PAIRS,
    ROWS,
    SPARSE,
    GroupedLayout,
    check_blocks,
    check_expected_rows,
    check_group_list,
    layout,
)
from graph_quant.meta.matmul.grouped_matmul_950 import QuantisedCall, check_codes, is_quantised, only
from graph_quant.meta.matmul.grouped_parameters import Parameters
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import ND, NZ, Rules
from graph_quant.reference.matmul.grouped_matmul import grouped_matmul as compute
from graph_quant.reference.matmul.grouped_matmul import nonempty
from graph_quant.reference.matmul.grouped_narrow import GroupedForm
from graph_quant.reference.matmul.grouped_products import (
    A4W4,
    A8W4,
    A8W8,
    ANTIQUANT,
    ANTIQUANT_950,
    FLOAT,
    QUANTISED_950,
)
from graph_quant.refusals import UndescribedError
from torch import Tensor

Tensors = Sequence[Tensor]


@dataclass(frozen=True)
class GroupedMatmulPlan(Plan):
    """The ``form`` of the products, and the options with their defaults.

    ``narrow`` is the form of a quantised call on Ascend 950.
    """

    form: str
    dtype: torch.dtype
    packed_along_k: bool
    cut: int
    list_type: int
    activation: int
    expected_rows: int
    narrow: GroupedForm | None = None


@operator("npu_grouped_matmul", reference=compute, chips=A2_A3_950)
def grouped_matmul(
    rules: Rules,
    x: Tensors,
    weight: Tensors,
    bias: Tensors | None,
    scale: Tensors | None,
    offset: Tensors | None,
    antiquant_scale: Tensors | None,
    antiquant_offset: Tensors | None,
    per_token_scale: Tensors | None,
    group_list: Tensor | None,
    activation_input: Tensors | None,
    activation_quant_scale: Tensors | None,
    activation_quant_offset: Tensors | None,
    split_item: int | None,
    group_type: int | None,
    group_list_type: int | None,
    act_type: int | None,
    tuning_config: Sequence[int] | None,
    output_dtype: int | None,
    x_dtype: int | None,
    weight_dtype: int | None,
    scale_dtype: int | None,
    per_token_scale_dtype: int | None,
) -> GroupedMatmulPlan:
    """The plan of a call whose group_list is a tensor."""
    if group_type is None:
        rules.refuse("Requires manual passing group_type, -1, 0 or 2, got None")
    rules.require(group_type in (PAIRS, ROWS, COLUMNS), lambda: f"The group type must be -1, 0 or 2, got {group_type}")
    kind, activation = group_list_type or 0, act_type or 0
    rules.require(
        bool(x) and bool(weight), lambda: f"x and weight must not be empty, got {len(x)} and {len(weight)} tensors"
    )
    dtypes = {
        "x_dtype": x_dtype,
        "weight_dtype": weight_dtype,
        "scale_dtype": scale_dtype,
        "per_token_scale_dtype": per_token_scale_dtype,
    }
    if rules.chip is not ASCEND_950:
        rules.refuse_950(**dtypes)
    elif is_quantised(x, weight):
        refused = {
            "offset": offset,
            "antiquant_scale": antiquant_scale,
            "antiquant_offset": antiquant_offset,
            "activation_input": activation_input,
            "activation_quant_scale": activation_quant_scale,
            "activation_quant_offset": activation_quant_offset,
        }
        call = QuantisedCall(rules, x, weight, group_type, x_dtype, weight_dtype)
        for name, tensors in refused.items():
            if nonempty(tensors):
                rules.refuse(f"{name} must be None for {call.x_name} x and weights")
        return _quantised(
            rules,
            call,
            only(rules, "bias", bias),
            only(rules, "scale", scale),
            only(rules, "per_token_scale", per_token_scale),
            group_list,
            split_item or 0,
            kind,
            activation,
            tuning_config,
            output_dtype,
            (scale_dtype, per_token_scale_dtype),
        )
    form = form_of(rules, x, weight)
    if rules.chip is ASCEND_950:
        _check_unquantised(rules, form, x, weight, group_type, dtypes)
    may_pack_k = form == ANTIQUANT and weight[0].dtype == torch.int32
    sizes = layout(rules, x, weight, group_type, split_item or 0, may_pack_k)
    for index, tensor in enumerate(weight):
        stored = check_blocks(rules, f"weight[{index}]", tensor, sizes.depths[index], sizes.widths[index])
        rules.require(
            stored is not NZ or group_type != COLUMNS,
            lambda: "weight must be in ND for group_type 2, got FRACTAL_NZ",
        )
    output = output_of(rules, form, x[0], output_dtype)
    _check_groups(rules, form, group_type, kind, group_list, sizes, x, weight)
    _check_activation(rules, form, activation, output)
    parameters = Parameters(rules, form, sizes, weight, output)
    parameters.absent(
        activation_input=activation_input,
        activation_quant_scale=activation_quant_scale,
        activation_quant_offset=activation_quant_offset,
    )
    has_tokens = parameters.tokens(per_token_scale or (), x, bool(nonempty(offset)))
    parameters.scale(nonempty(scale), has_tokens)
    parameters.offset(nonempty(offset), nonempty(scale))
    parameters.antiquant(nonempty(antiquant_scale), nonempty(antiquant_offset), x[0])
    if group_type == COLUMNS:
        parameters.absent(bias=bias)
    parameters.bias(nonempty(bias), x[0], has_tokens)
    rows = functools.reduce(torch.sym_max, (tensor.size(0) for tensor in x))
    expected = check_expected_rows(rules, rows, tuning_config)
    shapes = sizes.shapes
    if group_type == COLUMNS:
        assert group_list is not None
        shapes = ((group_list.size(0), *shapes[0]),)
    results = tuple(Result(shape, output) for shape in shapes)
    if form == ANTIQUANT and rules.chip is ASCEND_950:
        form = ANTIQUANT_950
    return GroupedMatmulPlan(results, form, output, sizes.packed_along_k, group_type, kind, activation, expected)


def _quantised(
    rules: Rules,
    call: QuantisedCall,
    bias: Tensor | None,
    scale: Tensor | None,
    tokens: Tensor | None,
    group_list: Tensor | None,
    split_item: int,
    kind: int,
    activation: int,
    tuning_config: Sequence[int] | None,
    output_dtype: int | None,
    scale_dtypes: tuple[int | None, int | None],
) -> GroupedMatmulPlan:
    """The plan of a quantised call on Ascend 950."""
    rules.one_of("split_item", split_item, (2, 3), f" for {call.x_name} x and weights")
    output = call.find_output(output_dtype)
    groups = call.check_groups(group_list, kind)
    codes = check_codes(rules, scale, tokens, *scale_dtypes)
    call.check_scales(groups, scale, tokens, bias, output, codes)
    call.check_activation(activation, scale, output)
    call.check_format(output, all(codes))
    expected = check_expected_rows(rules, call.m, tuning_config) if call.x_name == "int8" else 0
    form = dataclasses.replace(call.form, is_mx=all(codes))
    return GroupedMatmulPlan(
        call.results(groups, output),
        QUANTISED_950,
        output,
        False,
        call.group_type,
        kind,
        activation,
        expected,
        narrow=form,
    )


def _check_unquantised(
    rules: Rules, form: str, x: Tensors, weight: Tensors, group_type: int, dtypes: dict[str, int | None]
) -> None:
    """Check what Ascend 950 takes of float x less than other chips."""
    if form in (A8W4, A4W4):
        raise UndescribedError(f"{rules.op}: {form} is not described for Ascend 950 yet")
    for name, value in dtypes.items():
        if value is not None:
            rules.refuse(f"{name} must be None for {x[0].dtype} x and {weight[0].dtype} weights, got {value}")
    if form == ANTIQUANT:
        rules.require(
            group_type != ROWS or weight[0].dim() == 3,
            lambda: f"weight must be one tensor (E, k, n) for {weight[0].dtype} weights and group_type 0",
        )
        for index, tensor in enumerate(weight):
            rules.format(f"weight[{index}]", tensor, ND, why=f" for {x[0].dtype} x and {tensor.dtype} weights")
        return
    if group_type == PAIRS:
        for index, tensor in enumerate(x):
            rules.rank(f"x[{index}]", tensor, 2, why=" for float weights on Ascend 950")


def _check_groups(
    rules: Rules,
    form: str,
    group_type: int,
    kind: int,
    group_list: Tensor | None,
    sizes: GroupedLayout,
    x: Tensors,
    weight: Tensors,
) -> None:
    rules.require(kind in (0, 1, 2), lambda: f"group_list_type must be 0, 1 or 2, got {kind}")
    if group_type == COLUMNS:
        rules.require(
            form == FLOAT, lambda: f"group_type must be -1 or 0 for {x[0].dtype} x and {weight[0].dtype} weights, got 2"
        )
    if kind == SPARSE:
        rules.require(
            form == A8W8 and group_type == ROWS,
            lambda: f"group_list_type 2 is for int8 x and weights and group_type 0, got {x[0].dtype} and {group_type}",
        )
    if form == A8W4:
        rules.require(kind == 1, lambda: f"group_list_type must be 1 for int8 x and int4 weights, got {kind}")
    if form not in (FLOAT, ANTIQUANT, A8W8):
        one = group_type == ROWS and sizes.one_weight
        rules.require(
            one,
            lambda: (
                f"group_type must be 0, and weight one tensor, for {x[0].dtype} x and int4 weights, got {group_type}"
            ),
        )
    if group_type == PAIRS:
        rules.require(group_list is None, lambda: "group_list must be None for group_type -1")
        return
    groups = None if group_type == COLUMNS else weight[0].size(0) if sizes.one_weight else len(weight)
    most = 1024 if sizes.one_weight or group_type == COLUMNS else 128
    check_group_list(rules, group_list, kind, groups, most, required=len(x) == 1)


def _check_activation(rules: Rules, form: str, activation: int, output: torch.dtype) -> None:
    rules.require(activation in (0, 1, 2, 4, 5), lambda: f"act_type must be 0, 1, 2, 4 or 5, got {activation}")
    rules.require(
        activation == 0 or (form == A8W8 and output in HALVES),
        lambda: f"act_type must be 0 but for int8 x and weights and float results, got {activation}",
    )
