"""npu_all_to_all_matmul and npu_matmul_all_to_all: argument rules and results; only A3 has them.

The first redistributes x1 (bs, h) of all ranks to (bs / ranks, h * ranks) and multiplies it by x2 (h * ranks, n). The
second multiplies x1 (bs, h) by x2 (h, n) and redistributes the product to (bs * ranks, n / ranks). x1 may have no rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from graph_quant.meta.collective.alltoallv_gmm_rules import check_chip
from graph_quant.meta.collective.matmul_rules import HALVES, check_bias
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import Rules, Size
from graph_quant.reference.collective.all_to_all_matmul import all_to_all_matmul as all_to_all_first
from graph_quant.reference.collective.all_to_all_matmul import matmul_all_to_all as matmul_first
from torch import Tensor

RANKS = (2, 4, 8, 16)


@operator("npu_all_to_all_matmul", reference=all_to_all_first)
def all_to_all_matmul(
    rules: Rules,
    x1: Tensor,
    x2: Tensor,
    hcom: str,  # noqa: ARG001  (used by the reference)
    world_size: int,
    bias: Tensor | None,
    all2all_axes: Sequence[int] | None,
    all2all_out_flag: bool,
    comm_mode: str | None,
) -> Plan:
    """Check a call against the documented rules and return its plan."""
    rules.one_of("all2all_axes", list(all2all_axes or ()), ([], [-2, -1]))
    rules.rank("x1", x1, 2)
    depth = x1.size(1) * world_size
    _check(rules, x1, x2, depth, "x1.size(1) * world_size", world_size, bias, comm_mode)
    rules.require(depth >= 2, lambda: f"x1.size(1) must be at least 2 over all ranks, got {depth}")
    rows = x1.size(0)
    rules.require(
        rows % world_size == 0, lambda: f"x1.size(0) must be a multiple of world_size, got {rows} and {world_size}"
    )
    permuted = Result((rows // world_size, depth), x1.dtype) if all2all_out_flag else None
    return Plan((Result((rows // world_size, x2.size(1)), x1.dtype), permuted))


@operator("npu_matmul_all_to_all", reference=matmul_first)
def matmul_all_to_all(
    rules: Rules,
    x1: Tensor,
    x2: Tensor,
    hcom: str,  # noqa: ARG001  (used by the reference)
    world_size: int,
    bias: Tensor | None,
    all2all_axes: Sequence[int] | None,
    comm_mode: str | None,
) -> Plan:
    """Check a call against the documented rules and return its plan."""
    rules.one_of("all2all_axes", list(all2all_axes or ()), ([], [-1, -2]))
    rules.rank("x1", x1, 2)
    _check(rules, x1, x2, x1.size(1), "x1.size(1)", world_size, bias, comm_mode)
    columns = x2.size(1)
    rules.require(
        columns % world_size == 0,
        lambda: f"x2.size(1) must be a multiple of world_size, got {columns} and {world_size}",
    )
    return Plan((Result((x1.size(0) * world_size, columns // world_size), x1.dtype),))


def _check(
    rules: Rules,
    x1: Tensor,
    x2: Tensor,
    depth: Size,
    depth_name: str,
    world_size: int,
    bias: Tensor | None,
    comm_mode: str | None,
) -> None:
    rules.one_of("world_size", world_size, RANKS)
    rules.one_of("comm_mode", comm_mode, (None, "ai_cpu"), ": other ways are not known here")
    rules.dtype("x1", x1, HALVES)
    rules.dtype("x2", x2, (x1.dtype,), ", as x1 is")
    rules.rank("x2", x2, 2)
    rules.at_least("x1.size(1)", x1.size(1), 1)
    rules.not_empty("x2", x2)
    rules.equal("x2.size(0)", x2.size(0), depth_name, depth)
    rules.require(depth <= 65535, lambda: f"{depth_name} must be at most 65535, got {depth}")
    rules.require(
        x1.is_contiguous(), lambda: f"x1 must be contiguous, got strides {list(x1.stride())} for {list(x1.shape)}"
    )
    wide = torch.float32 if x1.dtype == torch.bfloat16 else x1.dtype
    check_bias(rules, bias, (wide,), x2.size(1), f" for {x1.dtype} x1")
    check_chip(rules)
