"""npu_transpose_batchmatmul: what may be passed, and what comes back.

input is (b, m, k), or (m, b, k) with perm_x1 [1, 0, 2]; weight is (b, k, n), or (b, n, k) with perm_x2 [0, 2, 1], which
needs perm_x1 [1, 0, 2]. Both are float16, bfloat16 or float32. The result is (m, b, n), with
batch_split_factor f (f, m, b * n / f), with a packed scale, int64 or uint64, which float16 takes, int8 of
(m, 1, b * n).

According to the documents k and n are multiples of 16, batch_split_factor divides n, and perm_x2 [0, 2, 1] and
(m, b, k) with b * k above 65535 are not allowed. The device takes any k and n, divides b, allows the permutation, and
refuses such sizes only with a scale or a split; the rules follow the device.

A weight in half precision may be in FRACTAL_NZ, with perm_x1 [1, 0, 2], perm_x2 [0, 1, 2], neither scale nor split,
neither k nor n of 1, and b * k at most 65535.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import FLOATS, ND, NZ, TILING_ERROR, Rules, Size
from graph_quant.reference.matmul.transpose_batchmatmul import transpose_batchmatmul as reference
from torch import Tensor

STRAIGHT, ROWS_FIRST, DEPTH_LAST = (0, 1, 2), (1, 0, 2), (0, 2, 1)
LARGEST = 65535
HALVES = (torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class TransposeBatchMatmulPlan(Plan):
    """The permutations of the dimensions, and the number of parts into which the batches of a result are split."""

    x1_order: tuple[int, ...]
    x2_order: tuple[int, ...]
    y_order: tuple[int, ...]
    parts: int


@operator("npu_transpose_batchmatmul", reference=reference)
def transpose_batchmatmul(
    rules: Rules,
    x1: Tensor,
    x2: Tensor,
    bias: Tensor | None,
    scale: Tensor | None,
    perm_x1: Sequence[int] | None,
    perm_x2: Sequence[int] | None,
    perm_y: Sequence[int] | None,
    batch_split_factor: int | None,
) -> TransposeBatchMatmulPlan:
    """The plan of a call that the documents allow; any other call is refused."""
    for name, tensor in (("input", x1), ("weight", x2)):
        _check_float(rules, name, tensor)
        rules.rank(name, tensor, 3)
        rules.not_empty(name, tensor)
    rules.dtype("weight", x2, (x1.dtype,), ", the dtype of input")
    rules.require(bias is None, lambda: "bias must be None, got one")
    orders = (
        _order(rules, "perm_x1", perm_x1, (STRAIGHT, ROWS_FIRST)),
        _order(rules, "perm_x2", perm_x2, (STRAIGHT, DEPTH_LAST)),
        _order(rules, "perm_y", perm_y, (ROWS_FIRST,)),
    )
    batches, rows, depth = (x1.size(dim) for dim in orders[0])
    columns = x2.size(orders[1][2])
    rules.equal("the batches of weight", x2.size(0), "those of input", batches)
    rules.equal("k of weight", x2.size(orders[1][1]), "that of input", depth)
    parts = 1 if batch_split_factor is None else batch_split_factor
    rules.at_least("batch_split_factor", parts, 1)
    rules.require(
        batches % parts == 0,
        lambda: f"batch_split_factor must divide the batches of input, got {parts} and {batches}",
    )
    is_plain = scale is None and parts == 1
    _check_sizes(rules, batches, depth, columns, orders, plain=is_plain)
    rules.format("input", x1, ND)
    if rules.format("weight", x2, ND, NZ) is NZ:
        _check_blocks(rules, x2, batches * depth, (depth, columns), orders, plain=is_plain)
    if scale is None:
        shape = (rows, batches, columns) if parts == 1 else (parts, rows, batches * columns // parts)
        return TransposeBatchMatmulPlan((Result(shape, x1.dtype),), *orders, parts)
    rules.dtype("input", x1, (torch.float16,), " beside scale")
    rules.dtype("scale", scale, (torch.int64, torch.uint64))
    rules.rank("scale", scale, 1)
    rules.equal("scale.size(0)", scale.size(0), "b * n", batches * columns)
    rules.require(scale.size(0) <= LARGEST, lambda: f"b * n must be at most {LARGEST}, got {scale.size(0)}")
    rules.require(parts == 1, lambda: f"batch_split_factor must be 1 beside scale, got {parts}")
    return TransposeBatchMatmulPlan((Result((rows, 1, batches * columns), torch.int8),), *orders, parts)


def _order(rules: Rules, name: str, perm: Sequence[int] | None, allowed: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    order = allowed[0] if perm is None else tuple(perm)
    words = " or ".join(str(list(choice)) for choice in allowed)
    rules.require(order in allowed, lambda: f"{name} should be {words}, got {list(order)}")
    return order


def _check_float(rules: Rules, name: str, tensor: Tensor) -> None:
    """Check the dtype; the message, as those of the permutations, is torch_npu's, which its own tests expect."""
    rules.require(
        tensor.dtype in FLOATS,
        lambda: f"{name}'s type supported for float16, float32 and bfloat16, got {tensor.dtype}",
    )


def _check_sizes(
    rules: Rules, batches: Size, depth: Size, columns: Size, orders: tuple[tuple[int, ...], ...], plain: bool
) -> None:
    rows_first = orders[0] == ROWS_FIRST
    for name, size in (("b", batches), ("n", columns), *(() if rows_first else (("k", depth),))):
        rules.require(size <= LARGEST, lambda: f"{name} must be at most {LARGEST}, got {size}")  # noqa: B023
    if orders[1] == DEPTH_LAST:
        rules.require(
            rows_first and plain,
            lambda: "perm_x2 [0, 2, 1] is for perm_x1 [1, 0, 2], without scale or batch_split_factor, got another call",
        )
    if rows_first and not plain:
        product = batches * depth
        rules.require(
            product <= LARGEST,
            lambda: f"b * k must be at most {LARGEST} beside scale or batch_split_factor, got {product}",
        )


def _check_blocks(
    rules: Rules,
    weight: Tensor,
    row: Size,
    sizes: tuple[Size, Size],
    orders: tuple[tuple[int, ...], ...],
    plain: bool,
) -> None:
    """Check what the device demands beside a weight in FRACTAL_NZ; ``row`` is b * k, ``sizes`` are k and n."""
    why = " for a weight in FRACTAL_NZ"
    rules.dtype("weight", weight, HALVES, why)
    for name, size in zip(("k", "n"), sizes, strict=True):
        rules.require(size != 1, lambda: f"{name} must not be 1{why}, got 1")  # noqa: B023
    rules.require(plain, lambda: f"scale must be None and batch_split_factor 1{why}, got another call", TILING_ERROR)
    for name, order, expected in (("perm_x1", orders[0], ROWS_FIRST), ("perm_x2", orders[1], STRAIGHT)):
        rules.require(
            order == expected,
            lambda: f"{name} must be {list(expected)}{why}, got {list(order)}",  # noqa: B023
            TILING_ERROR,
        )
    rules.require(row <= LARGEST, lambda: f"b * k must be at most {LARGEST}{why}, got {row}", TILING_ERROR)
