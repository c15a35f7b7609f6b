"""What the products that communicate have in common."""

from __future__ import annotations

import torch
from graph_quant.meta.rules import Rules, Size
from torch import Tensor

HALVES = (torch.float16, torch.bfloat16)
RANKS = (2, 4, 8, 16, 32)


def refuse_950(rules: Rules, **only_950: object) -> None:
    """Arguments for Ascend 950 are left alone."""
    for argument, value in only_950.items():
        if value not in (None, 0):
            rules.refuse(f"{argument} is for Ascend 950, leave it {'0' if value else None} on A2 and A3, got {value}")


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


def check_depth(rules: Rules, name: str, depth: Size) -> None:
    """What the fused kernels multiply along is from 256 to 65534 long."""
    rules.require(depth >= 256, lambda: f"{name}.size(1) must be at least 256, got {depth}")
    rules.require(depth < 65535, lambda: f"{name}.size(1) must be less than 65535, got {depth}")


def check_bias(rules: Rules, bias: Tensor | None, dtype: torch.dtype, columns: Size) -> None:
    """A bias is a row."""
    if bias is not None:
        rules.dtype("bias", bias, (dtype,))
        rules.rank("bias", bias, 1)
        rules.equal("bias.size(0)", bias.size(0), "x2.size(1)", columns)


def check_row(rules: Rules, name: str, row: Tensor, columns: Size) -> None:
    """One for all, or one for each column; in one dimension, or two of which the first is 1."""
    rules.rank(name, row, 1, 2)
    if row.dim() == 2:
        rules.equal(f"{name}.size(0)", row.size(0), "1, for two dimensions", 1)
    rules.one_or(f"{name}.size(-1)", row.size(-1), "x2.size(1)", columns)


def check_fused(rules: Rules, reduce_op: str | None, comm_turn: int) -> None:
    """What the fused kernels can be told today."""
    if reduce_op is not None:
        rules.one_of("reduce_op", reduce_op, ("sum",))
    rules.one_of("comm_turn", comm_turn, (0,))


def check_ranks(rules: Rules, world_size: int) -> None:
    """The numbers of ranks that devices are connected in."""
    rules.one_of("world_size", world_size, RANKS)
