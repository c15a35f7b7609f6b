"""Rules that npu_alltoallv_gmm and npu_gmm_alltoallv share; only A3 has them.

Every rank holds e experts. Row counts are ordered by rank, then by expert. A shared expert, mm_x (bs, h2) times
mm_weight (h2, n2), is computed as well.
"""

from __future__ import annotations

from collections.abc import Sequence

from graph_quant.chip import is_a3
from graph_quant.meta.collective.matmul_rules import HALVES, check_none
from graph_quant.meta.operator import Result
from graph_quant.meta.rules import Rules, Size
from torch import Tensor

RANKS = (8, 16, 32, 64, 128)
_LEAST_BYTES = 2 * 1024 * 1024


def check_chip(rules: Rules) -> None:
    """Refuse other chips than A3; called last, so that other mistakes are reported on every chip."""
    rules.require(is_a3(), lambda: "only Atlas A3 has it (GRAPH_QUANT_SOC=Ascend910_9392), got another chip")


def check_modes(rules: Rules, comm_mode: str | None, **counts: Tensor | None) -> None:
    """Refuse row counts as tensors, and modes of communication that A3 lacks."""
    check_none(rules, " today", **counts)
    rules.one_of("comm_mode", comm_mode, (None, "ai_cpu"), " on A3")


def check_experts(
    rules: Rules,
    x: Tensor,
    weight: Tensor,
    transposed: bool,
    ranks: int,
    sends: Sequence[int],
    receives: Sequence[int],
) -> Size:
    """Check the operands of the grouped matmul and return the number of its columns."""
    rules.dtype("gmm_x", x, HALVES)
    rules.rank("gmm_x", x, 2)
    rules.dtype("gmm_weight", weight, (x.dtype,), ", as gmm_x is")
    rules.rank("gmm_weight", weight, 3)
    depth, columns = (2, 1) if transposed else (1, 2)
    rules.equal(f"gmm_weight.size({depth})", weight.size(depth), "gmm_x.size(1)", x.size(1))
    _within(rules, "gmm_x.size(0)", x.size(0), 52428799)
    _within(rules, "gmm_x.size(1)", x.size(1), 65535)
    _within(rules, f"gmm_weight.size({columns})", weight.size(columns), 65535)
    rules.one_of("ep_world_size", ranks, RANKS)
    _within(rules, "gmm_weight.size(0)", weight.size(0), min(32, 256 // ranks))
    for name, numbers in (("send_counts", sends), ("recv_counts", receives)):
        rules.equal(f"the length of {name}", len(numbers), "gmm_weight.size(0) * ep_world_size", weight.size(0) * ranks)
        rules.require(min(numbers) >= 0, lambda: f"{name} must not be negative, got {min(numbers)}")  # noqa: B023
        part = len(numbers) // ranks
        least = min(sum(numbers[rank * part : (rank + 1) * part]) for rank in range(ranks))
        rules.require(
            least * x.size(1) * x.dtype.itemsize >= _LEAST_BYTES,
            lambda: f"{name} must let 2 MB of gmm_x go to and come from each rank, got {least} rows for one",  # noqa: B023
        )
    rules.equal("gmm_x.size(0)", x.size(0), "the sum of send_counts", sum(sends))
    return weight.size(columns)


def check_shared(
    rules: Rules, x: Tensor | None, weight: Tensor | None, transposed: bool, like: Tensor, rows: Size
) -> Result | None:
    """Check the shared expert and return its result, if there is one; a token has two to eight of the ``rows``."""
    if x is None or weight is None:
        check_none(rules, " without the other of both", mm_x=x, mm_weight=weight)
        rules.require(not transposed, lambda: "trans_mm_weight must be False without mm_weight, got True")
        return None
    rules.dtype("mm_x", x, (like.dtype,), ", as gmm_x is")
    rules.rank("mm_x", x, 2)
    rules.dtype("mm_weight", weight, (like.dtype,), ", as gmm_x is")
    rules.rank("mm_weight", weight, 2)
    depth, columns = (1, 0) if transposed else (0, 1)
    rules.equal(f"mm_weight.size({depth})", weight.size(depth), "mm_x.size(1)", x.size(1))
    rules.at_least("mm_x.size(0)", x.size(0), 1)
    _within(rules, "mm_x.size(1)", x.size(1), 12288)
    _within(rules, f"mm_weight.size({columns})", weight.size(columns), 65535)
    chosen = rows // x.size(0)
    rules.require(chosen >= 2, lambda: f"mm_x.size(0) must allow for 2 experts of a token, got {x.size(0)} for {rows}")
    rules.require(chosen <= 8, lambda: f"mm_x.size(0) must allow for 8 experts of a token, got {x.size(0)} for {rows}")
    return Result((x.size(0), weight.size(columns)), x.dtype)


def _within(rules: Rules, name: str, size: Size, most: int) -> None:
    rules.at_least(name, size, 1)
    rules.require(size <= most, lambda: f"{name} must be at most {most}, got {size}")
