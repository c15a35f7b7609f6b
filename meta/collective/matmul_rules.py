"""Rules that the fused matmul and communication operators share."""

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
    """``output`` is the dtype of the product and of the reduction."""

    output: torch.dtype


def refuse_950(rules: Rules, **only_950: object) -> None:
    """Refuse arguments that only Ascend 950 supports."""
    for argument, value in only_950.items():
        if value not in (None, 0):
            rules.refuse(f"{argument} is for Ascend 950, leave it out on A2 and A3, got {value}")


def check_sizes(rules: Rules, name: str, x1: Tensor, x2: Tensor, most: int = 2) -> None:
    """Check the ranks of both matrices and their contracted dimension."""
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
    """Refuse arguments that must be None."""
    for name, value in values.items():
        rules.require(value is None, lambda: f"{name} must be None{why}, got one")  # noqa: B023


def check_gathered(
    rules: Rules, x1: Tensor, x2: Tensor, world_size: int, comm_turn: int, ranks: Sequence[int] = RANKS
) -> None:
    """Check a matmul whose rows are gathered or scattered; its depth is from 256 to 65534."""
    rules.one_of("world_size", world_size, ranks)
    rules.one_of("comm_turn", comm_turn, (0,))
    check_sizes(rules, "input", x1, x2)
    depth = x1.size(1)
    rules.require(depth >= 256, lambda: f"input.size(1) must be at least 256, got {depth}")
    rules.require(depth < 65535, lambda: f"input.size(1) must be less than 65535, got {depth}")


def check_scattered(rules: Rules, x1: Tensor, world_size: int, reduce_op: str) -> Size:
    """Check a reduce-scatter and return the number of rows per rank."""
    rules.one_of("reduce_op", reduce_op, ("sum",))
    rows = x1.size(0)
    rules.require(
        rows % world_size == 0, lambda: f"input.size(0) must be a multiple of world_size, got {rows} and {world_size}"
    )
    return rows // world_size


def check_bias(rules: Rules, bias: Tensor | None, dtypes: Sequence[torch.dtype], columns: Size, why: str = "") -> None:
    """Check a bias with one element per column."""
    if bias is not None:
        rules.dtype("bias", bias, dtypes, why)
        rules.rank("bias", bias, 1)
        rules.equal("bias.size(0)", bias.size(0), "x2.size(1)", columns)


def check_row(rules: Rules, name: str, row: Tensor, columns: Size) -> None:
    """Check a parameter of shape (1,), (n,), (1, 1) or (1, n)."""
    rules.rank(name, row, 1, 2)
    if row.dim() == 2:
        rules.equal(f"{name}.size(0)", row.size(0), "1, for two dimensions", 1)
    rules.one_or(f"{name}.size(-1)", row.size(-1), "x2.size(1)", columns)
