"""_npu_group_topk: sets the scores of all experts to zero, except those of the k best groups of each row.

A group's score is the sum of its n largest values in float32, largest first; of equal scores the first group is better.
The order in which a device adds more than two values depends on its tiling.
"""

from __future__ import annotations

import torch
from graph_quant.reference.checks import value_check
from graph_quant.refusals import Refusal
from torch import Tensor


@value_check
def checked_scores(x: Tensor) -> Tensor:
    """``x``, refused where a value is below the kernel's padding, the lowest finite number."""
    if not bool(((x > -torch.inf) & ~x.isnan()).all()):
        raise Refusal("_npu_group_topk: the values of self must be above -inf, got -inf or nan")
    return x


def group_topk(x: Tensor, k: int, group_num: int, n: int) -> tuple[()]:
    """Write the zeros to ``x`` in place."""
    groups = checked_scores(x).reshape(x.size(0), group_num, -1)
    kept = best_groups(groups.float(), k, max(n, 1))
    x.copy_(groups.masked_fill(~kept, 0.0).reshape(x.shape))
    return ()


def best_groups(groups: Tensor, k: int, n: int) -> Tensor:
    """Which of float32 ``groups`` (rows, groups, experts) are the ``k`` best of their row, (rows, groups, 1)."""
    largest = groups.sort(dim=-1, descending=True, stable=True).values[..., :n]
    scores = largest[..., 0]
    for index in range(1, n):
        scores = scores + largest[..., index]
    best = scores.sort(dim=-1, descending=True, stable=True).indices[:, :k]
    return torch.zeros_like(scores, dtype=torch.bool).scatter_(1, best, True).unsqueeze(-1)
