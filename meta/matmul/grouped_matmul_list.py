"""npu_grouped_matmul.List, whose group_list is a list of integers: fewer forms, and the rows of each result are known.

Weights are separate, (k, n) each, in half precision or int8. split_item 0 and 1 give a result for each weight, from as
many x or from the groups of one; 2 and 3 give one result, from one x or several. The last end is the number of rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from graph_quant.meta.matmul.grouped_dtypes import HALVES, form_of, output_of
from graph_quant.meta.matmul.grouped_layout import PAIRS, ROWS, layout
from graph_quant.meta.matmul.grouped_matmul import GroupedMatmulPlan
from graph_quant.meta.matmul.grouped_parameters import Parameters
from graph_quant.meta.matmul.shapes import is_transposed
from graph_quant.meta.operator import Result, operator
from graph_quant.meta.rules import Rules, Size
from graph_quant.reference.matmul.grouped_matmul import grouped_matmul as compute
from graph_quant.reference.matmul.grouped_matmul import nonempty
from torch import Tensor

Tensors = Sequence[Tensor]
_WEIGHTS = (*HALVES, torch.int8)
_MOST_GROUPS = 128


@operator("npu_grouped_matmul.List", reference=compute)
def grouped_matmul_list(
    rules: Rules,
    x: Tensors,
    weight: Tensors,
    bias: Tensors | None,
    scale: Tensors | None,
    offset: Tensors | None,
    antiquant_scale: Tensors | None,
    antiquant_offset: Tensors | None,
    per_token_scale: Tensors | None,
    group_list: Sequence[int] | None,
    activation_input: Tensors | None,
    activation_quant_scale: Tensors | None,
    activation_quant_offset: Tensors | None,
    split_item: int | None,
    group_type: int | None,
    group_list_type: int | None,
    act_type: int | None,
    output_dtype: torch.dtype | int | None,
) -> GroupedMatmulPlan:
    """The plan of a call whose group_list is a list of integers, or None."""
    rules.require(group_type is None, lambda: f"group_type must be None with a list for group_list, got {group_type}")
    for name, value in (("group_list_type", group_list_type), ("act_type", act_type)):
        if value:
            rules.refuse(f"{name} must be 0 with a list for group_list, got {value}")
    rules.require(
        bool(x) and bool(weight), lambda: f"x and weight must not be empty, got {len(x)} and {len(weight)} tensors"
    )
    form = form_of(rules, x, weight)
    rules.dtype("weight[0]", weight[0], _WEIGHTS, " with a list for group_list")
    split, ends = split_item or 0, list(group_list or ())
    rules.require(split in (0, 1, 2, 3), lambda: f"split_item must be 0, 1, 2 or 3, got {split}")
    one_result = split in (2, 3)
    cut = PAIRS if not one_result and not ends else ROWS
    _check_count(rules, x, weight, ends, one_result)
    grouped_layout = layout(rules, x, weight, ROWS if one_result else PAIRS, split, False, cuts=cut == ROWS)
    output = output_of(rules, form, x[0], output_dtype if x[0].dtype != torch.int8 else output_dtype or torch.int8)
    rules.require(
        x[0].dtype != torch.int8 or output == torch.int8,
        lambda: f"output_dtype must be torch.int8 for int8 x with a list for group_list, got {output}",
    )
    if cut == PAIRS:
        for index, tensor in enumerate(weight):
            if is_transposed(tensor):
                rules.refuse(f"weight[{index}] must not be a transposed view, got strides {list(tensor.stride())}")
    shapes = grouped_layout.shapes
    if ends:
        sizes = _check_ends(rules, ends, x)
        if not one_result:
            shapes = tuple((size, width) for size, width in zip(sizes, grouped_layout.widths, strict=True))
    parameters = Parameters(rules, form, grouped_layout, weight, output)
    parameters.absent(
        per_token_scale=per_token_scale,
        offset=offset,
        activation_input=activation_input,
        activation_quant_scale=activation_quant_scale,
        activation_quant_offset=activation_quant_offset,
    )
    parameters.scale(nonempty(scale), False)
    parameters.antiquant(nonempty(antiquant_scale), nonempty(antiquant_offset), x[0])
    parameters.bias(nonempty(bias), x[0], False)
    results = tuple(Result(shape, output) for shape in shapes)
    return GroupedMatmulPlan(results, form, output, False, cut, 0, 0, 0)


def _check_count(rules: Rules, x: Tensors, weight: Tensors, ends: Sequence[int], one_result: bool) -> None:
    """Require as many weights as groups; with groups there may be one x, and must be for several results."""
    if one_result:
        rules.require(len(weight) > 1, lambda: "weight must have several tensors for split_item 2 or 3, got 1")
    if not ends:
        rules.require(
            len(x) == len(weight), lambda: f"x must have as many tensors as weight, got {len(x)} and {len(weight)}"
        )
        return
    rules.require(
        len(ends) <= _MOST_GROUPS, lambda: f"group_list must have at most {_MOST_GROUPS} values, got {len(ends)}"
    )
    rules.require(
        len(ends) == len(weight) > 1,
        lambda: (
            f"group_list must have as many values as weight has tensors, two or more, got {len(ends)} and {len(weight)}"
        ),
    )
    rules.require(
        one_result or len(x) == 1, lambda: f"x must be one tensor for several results and group_list, got {len(x)}"
    )


def _check_ends(rules: Rules, ends: Sequence[int], x: Tensors) -> list[Size]:
    """The sizes of the groups, which cover the rows of x, or are the rows of each x."""
    sizes: list[Size] = [end - start for start, end in zip([0, *ends], ends, strict=False)]
    for index, size in enumerate(sizes):
        if size < 0:
            rules.refuse(f"group_list[{index}] must not be below the value before it, got {ends[index]}")
    if len(x) == 1:
        rules.equal("the last value of group_list", ends[-1], "the rows of x", x[0].size(0))
    else:
        for index, (size, matrix) in enumerate(zip(sizes, x, strict=True)):
            rules.equal(f"x[{index}].size(0)", matrix.size(0), f"group {index} of group_list", size)
    return sizes
