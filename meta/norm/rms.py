"""Rules that the RMS norms share."""

from __future__ import annotations

import torch
from graph_quant.meta.operator import Result
from graph_quant.meta.rules import FLOATS, Rules, Size
from torch import Tensor


def check_weight(rules: Rules, name: str, weight: Tensor, x_name: str, x: Tensor) -> None:
    """Check that ``weight`` has the shape of the last, normalised dimensions of ``x``."""
    rules.require(
        1 <= weight.dim() <= x.dim(),
        lambda: (
            f"{name} must have 1 to {x.dim()} dimensions, as {x_name} has, got {weight.dim()}: {list(weight.shape)}"
        ),
    )
    for dim in range(-weight.dim(), 0):
        rules.equal(f"{name}.size({dim})", weight.size(dim), f"{x_name}.size({dim})", x.size(dim))


def check_epsilon(rules: Rules, epsilon: float) -> None:
    """Check that epsilon is not negative."""
    rules.require(epsilon >= 0, lambda: f"epsilon must be at least 0, got {epsilon}")


def check_positive_epsilon(rules: Rules, epsilon: float) -> None:
    """Check that epsilon is above 0, which kernels that quantise require."""
    rules.require(epsilon > 0, lambda: f"epsilon must be above 0, got {epsilon}")


def check_terms(rules: Rules, x1: Tensor, x2: Tensor, allowed: tuple[torch.dtype, ...]) -> None:
    """Check that the two terms of a sum have the same shape and dtype."""
    rules.dtype("x1", x1, allowed)
    rules.rank("x1", x1, 1, 8)
    rules.like("x2", x2, "x1", x1)


def check_sum(
    rules: Rules,
    x1: Tensor,
    x2: Tensor,
    gamma: Tensor,
    allowed: tuple[torch.dtype, ...] = FLOATS,
    *,
    may_lack_rows: bool = False,
) -> None:
    """Check the two terms of a sum, and that gamma is a weight of the same dtype.

    ``may_lack_rows``: aclnn returns at once for tensors without elements. Graphs call the tiling, which refuses them:
    there the GE node does.
    """
    check_terms(rules, x1, x2, allowed)
    rules.dtype("gamma", gamma, (x1.dtype,), ", the dtype of x1")
    check_weight(rules, "gamma", gamma, "x1", x1)
    rules.not_empty(*(("gamma", gamma) if may_lack_rows else ("x1", x1)))


def rstd_of(x: Tensor, gamma: Tensor) -> Result:
    """The result rstd, with size 1 in the normalised dimensions."""
    kept: tuple[Size, ...] = tuple(x.shape[: x.dim() - gamma.dim()])
    return Result((*kept, *[1] * gamma.dim()), torch.float32)


def like(x: Tensor, dtype: torch.dtype | None = None) -> Result:
    """A result with the shape of ``x`` and its dtype or another."""
    return Result(tuple(x.shape), dtype or x.dtype)
