"""The rules that the norms by root mean square share."""

from __future__ import annotations

import torch
from graph_quant.meta.operator import Result
from graph_quant.meta.rules import FLOATS, Rules, Size
from torch import Tensor


def check_weight(rules: Rules, name: str, weight: Tensor, x_name: str, x: Tensor) -> None:
    """``weight`` has the shape of the last dimensions of ``x``, those that are normalised."""
    rules.require(
        1 <= weight.dim() <= x.dim(),
        lambda: (
            f"{name} must have 1 to {x.dim()} dimensions, as {x_name} has, got {weight.dim()}: {list(weight.shape)}"
        ),
    )
    for dim in range(-weight.dim(), 0):
        rules.equal(f"{name}.size({dim})", weight.size(dim), f"{x_name}.size({dim})", x.size(dim))


def check_epsilon(rules: Rules, epsilon: float) -> None:
    """What is added to the mean of the squares is not negative."""
    rules.require(epsilon >= 0, lambda: f"epsilon must be at least 0, got {epsilon}")


def check_positive_epsilon(rules: Rules, epsilon: float) -> None:
    """What is added to the mean of the squares is above 0, as kernels that quantise ask for."""
    rules.require(epsilon > 0, lambda: f"epsilon must be above 0, got {epsilon}")


def check_terms(rules: Rules, x1: Tensor, x2: Tensor, allowed: tuple[torch.dtype, ...]) -> None:
    """The two terms of a sum are alike."""
    rules.dtype("x1", x1, allowed)
    rules.rank("x1", x1, 1, 8)
    rules.like("x2", x2, "x1", x1)


def check_sum(rules: Rules, x1: Tensor, x2: Tensor, gamma: Tensor, allowed: tuple[torch.dtype, ...] = FLOATS) -> None:
    """The two terms are alike, and gamma is the weight of their sum, in the same dtype."""
    check_terms(rules, x1, x2, allowed)
    rules.dtype("gamma", gamma, (x1.dtype,), ", the dtype of x1")
    check_weight(rules, "gamma", gamma, "x1", x1)
    rules.not_empty("x1", x1)


def rstd_of(x: Tensor, gamma: Tensor) -> Result:
    """One reciprocal for all that is normalised together; those dimensions stay as 1."""
    kept: tuple[Size, ...] = tuple(x.shape[: x.dim() - gamma.dim()])
    return Result((*kept, *[1] * gamma.dim()), torch.float32)


def like(x: Tensor, dtype: torch.dtype | None = None) -> Result:
    """A result of the shape of ``x``, and of its dtype or another."""
    return Result(tuple(x.shape), dtype or x.dtype)
