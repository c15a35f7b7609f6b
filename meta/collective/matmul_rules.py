"""What the products that communicate have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from graph_quant.meta.operator import Plan
from graph_quant.meta.rules import Rules, Size
from torch import Tensor

HALVES = (torch.float16, torch.bfloat16)
RANKS = (2, 4, 8, 16, 32)


@dataclass(frozen=True)
class MatmulPlan(Plan):
    """``output`` is the dtype of the product, in which ranks add."""

    output: torch.dtype


def refuse_950(rules: Rules, **only_950: object) -> None:
    """Arguments for Ascend 950 are left alone."""
    for argument, value in only_950.items():
        if value not in (None, 0):
            rules.refuse(f"{argument} is for Ascend 950, leave it out on A2 and A3, got {value}")


def check_sizes(rules: Rules, name: str, x1: Tensor, x2: Tensor, most: int = 2) -> None:
    """Both matrices are there, and what is multiplied is as long in both."""
    rules.rank(name, x1, 2, None if most == 2 else most)
    rules.rank("x2", x2, 2)
    rules.not_empty(name, x1)
    rules.not_empty("x2", x2)
    rules.equal("x2.size(0)", x2.size(0), f"{name}.size(-1)", x1.size(-1))
    rules.require(
        x1.stride(-1) == 1,
        lambda: f"{name} must not be a transposed view, got strides {list(x1.stride())}",
    )


def check_none(rules: Rules, why: str, **values: object) -> None:
    """Arguments that are left out."""
    for name, value in values.items():
        rules.require(value is None, lambda: f"{name} must be None{why}, got one")  # noqa: B023


def check_gathered(
    rules: Rules, x1: Tensor, x2: Tensor, world_size: int, comm_turn: int, ranks: Sequence[int] = RANKS
) -> None:
    """A product whose rows are gathered or scattered: what is multiplied is from 256 to 65534 long."""
    rules.one_of("world_size", world_size, ranks)
    rules.one_of("comm_turn", comm_turn, (0,))
    check_sizes(rules, "input", x1, x2)
    depth = x1.size(1)
    rules.require(depth >= 256, lambda: f"input.size(1) must be at least 256, got {depth}")
    rules.require(depth < 65535, lambda: f"input.size(1) must be less than 65535, got {depth}")


def check_scattered(rules: Rules, x1: Tensor, world_size: int, reduce_op: str) -> Size:
    """How many rows of a sum a rank keeps."""
    rules.one_of("reduce_op", reduce_op, ("sum",))
    rows = x1.size(0)
    rules.require(
        rows % world_size == 0, lambda: f"input.size(0) must be a multiple of world_size, got {rows} and {world_size}"
    )
    return rows // world_size


def check_bias(rules: Rules, bias: Tensor | None, dtypes: Sequence[torch.dtype], columns: Size, why: str = "") -> None:
    """A bias is a row."""
    if bias is not None:
        rules.dtype("bias", bias, dtypes, why)
        rules.rank("bias", bias, 1)
        rules.equal("bias.size(0)", bias.size(0), "x2.size(1)", columns)


def check_row(rules: Rules, name: str, row: Tensor, columns: Size) -> None:
    """One for all, or one for each column; in one dimension, or two of which the first is 1."""
    rules.rank(name, row, 1, 2)
    if row.dim() == 2:
        rules.equal(f"{name}.size(0)", row.size(0), "1, for two dimensions", 1)
    rules.one_or(f"{name}.size(-1)", row.size(-1), "x2.size(1)", columns)
