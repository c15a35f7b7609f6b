"""Calls of moe_gating_top_k."""

from typing import Any

import numpy as np
import torch

from support.arrays import exp, rounded
from support.extension_calls import Case, Wrong
from support.numpy_rules import floats
from support.tensors import bf16, f32

GATING = "_C_ascend::moe_gating_top_k"


def expected(
    x: torch.Tensor,
    k: int,
    k_group: int,
    group_count: int,
    group_select_mode: int,
    renorm: int,
    norm_type: int,
    out_flag: bool,
    routed_scaling_factor: float,
    eps: float,
    bias_opt: torch.Tensor | None,
) -> list[Any]:
    """State the rule for one token after the other."""
    one, y, chosen, out = np.float32(1), [], [], []
    for row in floats(x):
        if norm_type == 1:
            scores = one / (exp(-row) + one)
        else:
            powers = exp(row - row.max())
            scores = powers * (one / powers.sum(dtype=np.float32))
        worth = scores if bias_opt is None else scores + floats(bias_opt)
        if 1 < group_count < row.size and k_group != group_count:
            groups = worth.reshape(group_count, -1)
            top = np.sort(groups, 1)[:, ::-1]
            best = top[:, 0] if group_select_mode == 0 else top[:, 0] + top[:, 1]
            kept = sorted(range(group_count), key=lambda group: (-best[group], group))[:k_group]
            worth = np.array([groups[g] if g in kept else groups[g] * 0 - np.inf for g in range(group_count)]).ravel()
        order = sorted(range(row.size), key=lambda expert: (-worth[expert], expert))[:k]
        weights = scores[order]
        if norm_type == 1 or renorm:
            weights = weights / (weights.sum(dtype=np.float32) + np.float32(eps))
        y.append(weights * np.float32(routed_scaling_factor))
        chosen.append(order)
        out.append(scores if out_flag else scores * 0)
    return [rounded(np.array(y), x.dtype), np.array(chosen, np.int32), np.array(out)]


# Sums and exponentials may differ in the last bit; bfloat16 results in one of its units.
VALID = [
    Case(GATING, label, args, expected=expected, bound=bound)
    for label, bound, args in (
        ("softmax", 1e-6, (f32(3, 16), 4, 1, 1, 0, 1, 0, False, 1.0, 1e-20, None)),
        ("softmax, not normalised", 1e-6, (f32(3, 16), 4, 1, 1, 0, 0, 0, True, 1.0, 1e-20, None)),
        ("sigmoid, bias", 1e-6, (f32(3, 16), 4, 1, 1, 0, 0, 1, False, 2.5, 1e-20, f32(16))),
        ("groups by their two best", 1e-6, (f32(3, 64), 8, 4, 8, 1, 0, 1, False, 2.5, 1e-20, f32(64))),
        ("groups by their best", 2**-8, (bf16(3, 64), 8, 2, 8, 0, 1, 0, False, 1.0, 1e-20, None)),
    )
]
WRONG = [
    Wrong(
        GATING, "norm_type must be 0 or 1 on A2 and A3, got 2", (f32(3, 16), 4, 1, 1, 0, 0, 2, False, 1.0, 0.0, None)
    ),
    Wrong(GATING, "k must be no more than", (f32(3, 16), 17, 1, 1, 0, 0, 1, False, 1.0, 0.0, None)),
]
