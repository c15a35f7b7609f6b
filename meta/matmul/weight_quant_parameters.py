"""The parameters of npu_weight_quant_batchmatmul: those that dequantise the weights, and those of int8 results."""

from __future__ import annotations

import torch
from graph_quant.meta.rules import Rules, Size, guard_or_false
from torch import Tensor

MOST_ROWS_PACKED, PACKED_UNIT, GROUP_UNIT = 96, 64, 32


def is_transposed(tensor: Tensor) -> bool:
    """Whether a matrix is a transposed view."""
    return guard_or_false(tensor.stride(0) == 1) and guard_or_false(tensor.stride(1) == tensor.size(0))


def check_antiquant(rules: Rules, x: Tensor, weight: Tensor, scale: Tensor, offset: Tensor | None) -> None:
    """Check the dtypes of antiquant_scale and antiquant_offset, and that their shapes are equal."""
    rules.dtype("antiquant_scale", scale, (torch.float16, torch.bfloat16, torch.int64))
    rules.rank("antiquant_scale", scale, 1, 2)
    if scale.dtype != torch.int64:
        rules.same_dtype_eagerly("antiquant_scale", scale, "x", x)
    if scale.dim() == 2 and not is_transposed(weight):
        _contiguous(rules, "antiquant_scale", scale)
    if offset is None:
        return
    packed = scale.dtype == torch.int64
    why = " beside a packed antiquant_scale" if packed else ", the dtype of antiquant_scale"
    rules.dtype("antiquant_offset", offset, (torch.int32 if packed else scale.dtype,), why)
    rules.rank("antiquant_offset", offset, scale.dim())
    for dim in range(scale.dim()):
        rules.equal(f"antiquant_offset.size({dim})", offset.size(dim), f"antiquant_scale.size({dim})", scale.size(dim))
    if scale.dim() == 2 and not is_transposed(weight):
        _contiguous(rules, "antiquant_offset", offset)


def _contiguous(rules: Rules, name: str, tensor: Tensor) -> None:
    rules.require(
        not rules.is_eager or tensor.is_contiguous(),
        lambda: (
            f"{name} must be contiguous when run eagerly beside a weight that is not transposed, got strides "
            f"{list(tensor.stride())}; make it contiguous, or compile: a graph converts it"
        ),
    )


def check_antiquant_shape(rules: Rules, x: Tensor, scale: Tensor, group_size: int, columns: Size) -> None:
    """Check the shape of antiquant_scale: one element, one for each column, or a row for each group."""
    if group_size == 0:
        if scale.dim() == 2:
            rules.equal("antiquant_scale.size(0)", scale.size(0), "1, antiquant_group_size being 0", 1)
        rules.one_or("antiquant_scale.size(-1)", scale.size(-1), "n", columns)
        return
    depth = x.size(1)
    rules.require(
        group_size >= GROUP_UNIT and group_size % GROUP_UNIT == 0,
        lambda: f"antiquant_group_size must be 0 or a positive multiple of {GROUP_UNIT}, got {group_size}",
    )
    rules.require(group_size < depth, lambda: f"antiquant_group_size must be less than k, got {group_size} and {depth}")
    rules.rank("antiquant_scale", scale, 2, why=" for groups")
    groups = (depth + group_size - 1) // group_size
    rules.equal("antiquant_scale.size(0)", scale.size(0), "the groups of k", groups)
    rules.equal("antiquant_scale.size(1)", scale.size(1), "n", columns)


def check_packed_antiquant(rules: Rules, x: Tensor, weight: Tensor, scale: Tensor, columns: Size) -> None:
    """Check what a packed antiquant_scale requires of the other arguments."""
    why = " beside a packed antiquant_scale"
    rules.dtype("x", x, (torch.float16,), why)
    rules.dtype("weight", weight, (torch.int8,), why)
    rules.require(not is_transposed(x), lambda: f"x must not be transposed{why}, got strides {list(x.stride())}")
    rules.require(
        weight.stride(0) == 1, lambda: f"weight must be a transposed view{why}, got strides {list(weight.stride())}"
    )
    rows = x.size(0)
    rules.require(rows <= MOST_ROWS_PACKED, lambda: f"m must be at most {MOST_ROWS_PACKED}{why}, got {rows}")
    for name, size in (("k", x.size(1)), ("n", columns)):
        rules.require(
            size % PACKED_UNIT == 0,
            lambda: f"{name} must be a multiple of {PACKED_UNIT}{why}, got {size}",  # noqa: B023
        )
    rules.equal("antiquant_scale.size(-1)", scale.size(-1), "n, antiquant_scale being packed", columns)


def check_quant(rules: Rules, scale: Tensor | None, offset: Tensor | None, columns: Size) -> None:
    """Check the parameters of int8 results."""
    if scale is None:
        rules.require(offset is None, lambda: "quant_offset must be None without quant_scale, got one")
        return
    rules.dtype("quant_scale", scale, (torch.float32, torch.int64))
    check_row(rules, "quant_scale", scale, columns, one=True)
    if offset is not None:
        rules.dtype("quant_offset", offset, (torch.float32,))
        rules.rank("quant_offset", offset, scale.dim())
        for dim in range(scale.dim()):
            rules.equal(f"quant_offset.size({dim})", offset.size(dim), f"quant_scale.size({dim})", scale.size(dim))


def check_row(rules: Rules, name: str, row: Tensor, columns: Size, one: bool) -> None:
    """Require the shape (n,), (1, n) or, if ``one``, (1,)."""
    rules.rank(name, row, 1, 2)
    if row.dim() == 2:
        rules.equal(f"{name}.size(0)", row.size(0), "1", 1)
        rules.equal(f"{name}.size(1)", row.size(1), "n", columns)
    elif one:
        rules.one_or(f"{name}.size(0)", row.size(0), "n", columns)
    else:
        rules.equal(f"{name}.size(0)", row.size(0), "n", columns)
    rules.require(
        not rules.is_eager or row.is_contiguous(),
        lambda: f"{name} must be contiguous when run eagerly, got strides {list(row.stride())}; a graph converts it",
    )
