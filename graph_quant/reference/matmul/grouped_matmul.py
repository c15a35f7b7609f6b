"""npu_grouped_matmul: products of several pairs of matrices, or of groups of rows with a weight each.

``group_type`` -1 multiplies pair by pair; 0 divides the rows of x into groups, 2 its columns and the rows of the
weight. ``grouped_products`` computes one group. The device does not write rows that belong to no group; here they are
zero. An empty group of columns is zero on the device too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from graph_quant import quant_params
from graph_quant.reference.grouping import Span, check_pairs, spans
from graph_quant.reference.matmul.grouped_narrow import GroupedForm, grouped_matmul_950
from graph_quant.reference.matmul.grouped_products import Weight, product
from graph_quant.reference.opaque import opaque
from torch import Tensor

from ...releases.alternatives import guard_or_false

PAIRS, ROWS, COLUMNS = -1, 0, 2
_OP = "npu_grouped_matmul"


def nonempty(tensors: Sequence[Tensor] | None) -> list[Tensor]:
    """The tensors of an optional list; a list of one empty tensor is an empty list."""
    listed = list(tensors or ())
    is_none = len(listed) == 1 and listed[0].dim() == 1 and guard_or_false(listed[0].size(0) == 0)
    return [] if is_none else listed


def first_of(tensors: Sequence[Tensor] | None) -> Tensor | None:
    """The first tensor of an optional list, or None."""
    return next(iter(nonempty(tensors)), None)


def grouped_matmul(
    x: Sequence[Tensor],
    weight: Sequence[Tensor],
    bias: Sequence[Tensor] | None,
    scale: Sequence[Tensor] | None,
    offset: Sequence[Tensor] | None,
    antiquant_scale: Sequence[Tensor] | None,
    antiquant_offset: Sequence[Tensor] | None,
    per_token_scale: Sequence[Tensor] | None,
    group_list: Tensor | Sequence[int] | None,
    results: Sequence[Any],
    form: str,
    dtype: torch.dtype,
    packed_along_k: bool,
    cut: int,
    list_type: int,
    activation: int,
    expected_rows: int,
    narrow: GroupedForm | None = None,
) -> list[Tensor]:
    """The products, with the shapes of ``results``; ``cut`` is the group_type.

    ``narrow`` is the form of a quantised call on Ascend 950.
    """
    if narrow is not None:
        assert isinstance(group_list, Tensor)
        added, scales, tokens = (first_of(tensors) for tensors in (bias, scale, per_token_scale))
        settings = group_list, cut, list_type, activation, dtype
        return [grouped_matmul_950(narrow, x[0], weight[0], added, scales, tokens, *settings)]
    flat = [tensor.reshape(math.prod(tensor.shape[:-1]), tensor.size(-1)) for tensor in x]
    experts = weight[0].size(0) if weight[0].dim() == 3 else len(weight)
    shapes = [result.shape for result in results]
    computed = grouped_products(
        flat,
        list(weight),
        nonempty(bias),
        [quant_params.signed(tensor) for tensor in nonempty(scale)],
        nonempty(offset),
        nonempty(antiquant_scale),
        nonempty(antiquant_offset),
        per_token_scale[0] if per_token_scale else None,
        group_list if group_list is None or isinstance(group_list, Tensor) else torch.tensor(group_list),
        form,
        packed_along_k,
        cut,
        list_type,
        activation,
        expected_rows or flat[0].size(0) // max(experts, 1),
        [math.prod(shape[:-1]) for shape in shapes],
        [shape[-1] for shape in shapes],
        dtype,
    )
    return [tensor.reshape(tuple(shape)) for tensor, shape in zip(computed, shapes, strict=True)]


def _infer(*arguments: object) -> list[Tensor]:
    x, (rows, columns, dtype) = arguments[0], arguments[-3:]
    return [x[0].new_empty(size, dtype=dtype) for size in zip(rows, columns, strict=True)]  # type: ignore[index,call-overload]


@opaque(_infer)
def grouped_products(
    x: Sequence[Tensor],
    weight: Sequence[Tensor],
    bias: Sequence[Tensor],
    scale: Sequence[Tensor],
    offset: Sequence[Tensor],
    antiquant_scale: Sequence[Tensor],
    antiquant_offset: Sequence[Tensor],
    per_token_scale: Tensor | None,
    group_list: Tensor | None,
    form: str,
    packed_along_k: bool,
    group_type: int,
    group_list_type: int,
    act_type: int,
    expected_rows: int,
    rows: Sequence[int],
    columns: Sequence[int],
    dtype: torch.dtype,
) -> list[Tensor]:
    """The results as matrices with ``rows`` and ``columns``."""
    results = [x[0].new_zeros(size, dtype=dtype) for size in zip(rows, columns, strict=True)]
    tokens = None if per_token_scale is None else per_token_scale.reshape(-1, 1)

    def weight_of(number: int) -> Weight:
        def select(tensors: Sequence[Tensor]) -> Tensor | None:
            if not tensors:
                return None
            return tensors[0][number] if weight[0].dim() == 3 else tensors[number]

        elements = select(weight)
        assert elements is not None
        antiquant = select(antiquant_scale), select(antiquant_offset)
        return Weight(elements, select(bias), select(scale), select(offset), *antiquant, packed_along_k)

    if group_type == COLUMNS:
        assert group_list is not None
        for span in spans(_OP, group_list, group_list_type, group_list.size(0), x[0].size(1)):
            height = x[0].size(0)
            part = Weight(weight[0][span.as_slice])
            results[0][span.weight * height : (span.weight + 1) * height] = product(
                form, x[0][:, span.as_slice], part, None, dtype, act_type, expected_rows
            )
        return results
    for span, left, target in _pairs(x, weight, group_list, group_list_type, results):
        scales = None if tokens is None else tokens[span.as_slice]
        target.copy_(product(form, left, weight_of(span.weight), scales, dtype, act_type, expected_rows))
    return results


def _pairs(
    x: Sequence[Tensor],
    weight: Sequence[Tensor],
    group_list: Tensor | None,
    group_list_type: int,
    results: Sequence[Tensor],
) -> Iterator[tuple[Span, Tensor, Tensor]]:
    """For each group its span, its rows of x and its rows of the result."""
    if len(x) == 1 and group_list is not None:
        count = weight[0].size(0) if weight[0].dim() == 3 else len(weight)
        for span in spans(_OP, group_list, group_list_type, count, x[0].size(0)):
            target = results[0][span.as_slice] if len(results) == 1 else results[span.weight]
            yield span, x[0][span.as_slice], target
        return
    if group_list is not None:
        check_pairs(_OP, group_list, group_list_type, [matrix.size(0) for matrix in x])
    start = 0
    for number, left in enumerate(x):
        span = Span(number, start, start + left.size(0))
        yield span, left, results[0][span.as_slice] if len(results) == 1 < len(x) else results[number]
        start = span.end
