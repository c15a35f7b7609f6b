"""The tensors of npu_grouped_matmul: their number, their pairs, and the shapes of the results.

group_type -1 takes as many x (two to six dimensions) as weights (k, n), and gives a result for each. 0 divides rows:
one x and one weight (E, k, n), or one x or several and as many weights (k, n) of the same n; one result. 2 divides
columns of one x, a transposed view, and rows of one weight (k, n); one result (E, m, n).

int4 is packed eight to an int32 along the last dimension in memory: along k in a transposed view, else along n, as
aclnn unpacks it. Only half-precision x allow such a view.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from graph_quant.chip import ASCEND_950
from graph_quant.destination import INT4
from graph_quant.formats import Format
from graph_quant.meta.matmul.shapes import is_transposed
from graph_quant.meta.rules import ND, NZ, Rules, Size, statically_known_true
from torch import Tensor

PAIRS, ROWS, COLUMNS = -1, 0, 2
# The elements of a block of FRACTAL_NZ: rows, and columns by dtype; int32 holds int4.
_BLOCK_ROWS, _BLOCK_WIDTHS = 16, {torch.int8: 32, torch.int32: 64}
SPARSE = 2
_MOST_TENSORS, _MOST_GROUPS, _INNER_LIMIT = 128, 1024, 65535
_MOST_FLOATS_950 = 1024


@dataclass(frozen=True)
class GroupedLayout:
    """The shapes of the results, and the depth k and width n of each product."""

    shapes: tuple[tuple[Size, ...], ...]
    depths: tuple[Size, ...]
    widths: tuple[Size, ...]
    one_weight: bool
    packed_along_k: bool

    @property
    def experts(self) -> int:
        return len(self.widths)


def layout(
    rules: Rules,
    x: Sequence[Tensor],
    weight: Sequence[Tensor],
    group_type: int,
    split_item: int,
    may_pack_k: bool,
    *,
    cuts: bool = False,
) -> GroupedLayout:
    """The layout of a call; int32 tensors hold int4, in transposed views only if ``may_pack_k``.

    With ``cuts`` there are as many results as weights although there is one x.
    """
    is_many = rules.chip is ASCEND_950 and weight[0].is_floating_point()
    most = _MOST_FLOATS_950 if is_many else _MOST_TENSORS
    for name, tensors in (("x", x), ("weight", weight)):
        if not 1 <= len(tensors) <= most:
            rules.refuse(f"{name} must have 1 to {most} tensors, got {len(tensors)}")
    _check_split(rules, group_type, split_item)
    _check_ranks(rules, x, weight, group_type, cuts)
    one_weight = weight[0].dim() == 3
    pairs = [(x[0] if len(x) == 1 else x[index], matrix) for index, matrix in enumerate(weight)]
    _check_orders(rules, weight, group_type)
    along_k, depths, widths = _products(rules, pairs, may_pack_k)
    if group_type == PAIRS:
        shapes = tuple((*left.shape[:-1], width) for (left, _), width in zip(pairs, widths, strict=True))
    else:
        for index, width in enumerate(widths):
            rules.equal(f"n of weight[{index}]", width, "n of weight[0]", widths[0])
        rows = x[0].size(0) if len(x) == 1 else sum(matrix.size(0) for matrix in x)
        shapes = ((rows, widths[0]),)
    return GroupedLayout(shapes, depths, widths, one_weight, along_k)


def check_blocks(rules: Rules, name: str, weight: Tensor, depth: Size, width: Size) -> Format | None:
    """Check that a weight in FRACTAL_NZ has whole blocks of 16 rows and 32 bytes, as aclnnGroupedMatmul demands."""
    stored = rules.format(name, weight, ND, NZ)
    if stored is not NZ:
        return stored
    rules.require(
        rules.chip is not ASCEND_950 or weight.dtype != torch.float32,
        lambda: f"{name} must be in ND for torch.float32 on Ascend 950, got FRACTAL_NZ",
    )
    inner = _BLOCK_WIDTHS.get(weight.dtype, _BLOCK_ROWS)
    rows, columns = (inner, _BLOCK_ROWS) if is_transposed(weight) else (_BLOCK_ROWS, inner)
    for label, size, of in (("k", depth, rows), ("n", width, columns)):
        rules.multiple(f"{label} of {name}", size, of, f" for {weight.dtype} in FRACTAL_NZ")
    return stored


def _check_split(rules: Rules, group_type: int, split_item: int) -> None:
    allowed = (0, 1) if group_type == PAIRS else (2, 3)
    rules.require(
        split_item in allowed,
        lambda: f"split_item must be {allowed[0]} or {allowed[1]} for group_type {group_type}, got {split_item}",
    )


def _check_ranks(rules: Rules, x: Sequence[Tensor], weight: Sequence[Tensor], group_type: int, cuts: bool) -> None:
    one = group_type == ROWS and len(weight) == 1
    for index, tensor in enumerate(weight):
        why = " when it holds all groups" if one else f" for group_type {group_type}"
        rules.rank(f"weight[{index}]", tensor, 3 if one else 2, why=why)
    alike = (cuts or group_type != PAIRS) and len(x) == 1
    if group_type == COLUMNS or one:
        rules.require(
            len(x) == 1 == len(weight), lambda: f"x and weight must be one tensor each, got {len(x)} and {len(weight)}"
        )
    rules.require(
        alike or len(x) == len(weight), lambda: f"x must have as many tensors as weight, got {len(x)} and {len(weight)}"
    )
    for index, tensor in enumerate(x):
        rules.rank(f"x[{index}]", tensor, 2, 6 if group_type == PAIRS and not cuts else None)
        if tensor.dim() != x[0].dim():
            rules.refuse(f"x[{index}] must have as many dimensions as x[0], got {tensor.dim()} and {x[0].dim()}")
        _check_order(rules, f"x[{index}]", tensor, group_type)


def _check_order(rules: Rules, name: str, x: Tensor, group_type: int) -> None:
    """Require that x is a transposed view if its columns are divided, and not if its rows are."""
    strides = list(x.stride())
    if group_type == COLUMNS:
        rules.require(
            is_transposed(x), lambda: f"{name} must be a transposed view for group_type 2, got strides {strides}"
        )
    elif not statically_known_true(x.size(-1) * x.size(-2) == 1):
        rules.require(
            not is_transposed(x),
            lambda: f"{name} must not be a transposed view for group_type {group_type}, got strides {strides}",
        )


def _check_orders(rules: Rules, weight: Sequence[Tensor], group_type: int) -> None:
    """Require that all or no weights are transposed views; none if columns of x are divided. 1x1 matrices are both."""
    orders = {
        is_transposed(tensor): index
        for index, tensor in enumerate(weight)
        if not statically_known_true(tensor.size(-1) * tensor.size(-2) == 1)
    }
    if group_type == COLUMNS and True in orders:
        strides = list(weight[0].stride())
        rules.refuse(f"weight[0] must not be a transposed view for group_type 2, got strides {strides}")
    if len(orders) > 1:
        rules.refuse(f"weight must be transposed views all or none, got one, weight[{orders[True]}], among others")


def _products(
    rules: Rules, pairs: Sequence[tuple[Tensor, Tensor]], may_pack_k: bool
) -> tuple[bool, tuple[Size, ...], tuple[Size, ...]]:
    """Whether int4 weights are packed along k, and k and n of each pair."""
    along_k, depths, widths = False, [], []
    for index, (left, right) in enumerate(pairs):
        depth = left.size(-1) * (INT4.packing if left.dtype == torch.int32 else 1)
        rules.at_least("k", depth, 1)
        is_int4, transposed = right.dtype == torch.int32, _is_transposed_batch(right)
        along_k = is_int4 and transposed
        if along_k and not may_pack_k:
            strides = list(right.stride())
            rules.refuse(f"weight[{index}] of int4 must not be a transposed view for {left.dtype} x, got {strides}")
        elif along_k:
            rules.equal(f"8 * weight[{index}].size(-2), a transposed view,", right.size(-2) * INT4.packing, "k", depth)
        else:
            rules.equal(f"weight[{index}].size(-2)", right.size(-2), "k", depth)
        width = right.size(-1) * (INT4.packing if is_int4 and not along_k else 1)
        _check_inner(rules, "k", depth)
        if not transposed:
            _check_inner(rules, "n", width)
        depths.append(depth)
        widths.append(width)
    return along_k, tuple(depths), tuple(widths)


def _is_transposed_batch(weight: Tensor) -> bool:
    """Whether aclnn treats a weight as transposed: the matrices of a batch are contiguous."""
    whole = weight.dim() == 2 or statically_known_true(weight.stride(0) == weight.size(1) * weight.size(2))
    return is_transposed(weight) and whole


def _check_inner(rules: Rules, name: str, size: Size) -> None:
    if rules.chip is not ASCEND_950:
        rules.require(size <= _INNER_LIMIT, lambda: f"{name} must be at most {_INNER_LIMIT}, got {size}")


def check_group_list(
    rules: Rules, group_list: Tensor | None, kind: int, groups: Size | None, most: int, required: bool
) -> None:
    """Check ``group_list``, which has one entry for each of ``groups``; any number if ``groups`` is None."""
    if group_list is None:
        rules.require(not required, lambda: "group_list must be given, got None")
        return
    rules.dtype("group_list", group_list, (torch.int64,))
    rules.rank("group_list", group_list, 2 if kind == SPARSE else 1, why=f" for group_list_type {kind}")
    if kind == SPARSE:
        rules.equal("group_list.size(1)", group_list.size(1), "2", 2)
    rules.at_least("group_list.size(0)", group_list.size(0), 1)
    rules.require(
        group_list.size(0) <= most, lambda: f"group_list.size(0) must be at most {most}, got {group_list.size(0)}"
    )
    if groups is not None:
        rules.equal("group_list.size(0)", group_list.size(0), "the number of weights", groups)


def check_expected_rows(rules: Rules, rows: Size, tuning_config: Sequence[int] | None) -> int:
    """The first value of ``tuning_config``: the expected number of rows of an expert, 0 if unknown."""
    expected = (tuning_config or [0])[0]
    rules.require(expected >= 0, lambda: f"tuning_config[0] must not be negative, got {expected}")
    if expected:
        rules.require(
            expected <= rows, lambda: f"tuning_config[0] must be at most the rows of x, {rows}, got {expected}"
        )
    return expected
