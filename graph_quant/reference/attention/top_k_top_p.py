"""npu_top_k_top_p: masks all logits of a row to -inf but the k largest, and of these the smallest set with mass p."""

from __future__ import annotations

import torch
from graph_quant.reference.checks import value_check
from graph_quant.refusals import Refusal
from torch import Tensor

OP = "npu_top_k_top_p"
MOST_KEPT = 1024


@value_check
def checked_k(op: str, k: Tensor, width: int) -> Tensor:
    """``k``, refused outside of the range that the kernel sorts."""
    most = min(MOST_KEPT, width)
    wrong = ((k < 1) | (k > most)).nonzero()
    if wrong.numel():
        row = int(wrong[0])
        raise Refusal(f"{op}: k[{row}] must lie in [1, {most}], got {int(k[row])}")
    return k


@value_check
def checked_p(op: str, p: Tensor) -> Tensor:
    """``p``, refused outside of [0, 1]."""
    wrong = (~((p >= 0) & (p <= 1))).nonzero()
    if wrong.numel():
        row = int(wrong[0])
        raise Refusal(f"{op}: p[{row}] must lie in [0, 1], got {float(p[row])}")
    return p


def top_k_top_p(logits: Tensor, p: Tensor | None, k: Tensor | None) -> Tensor:
    """``logits`` with -inf where they are dropped. Ties with the k-th largest are all kept."""
    values, indices = logits.sort(dim=-1, stable=True)
    if k is not None:
        k = checked_k(OP, k, logits.size(1))
        edge = values.gather(1, (logits.size(1) - k.long()).unsqueeze(1))
        values = values.masked_fill(values < edge, -torch.inf)
    if p is not None:
        p = checked_p(OP, p)
        below = values.float().softmax(-1).cumsum(-1) <= 1 - p.float().unsqueeze(1)
        below[:, -1:] = False
        values = values.masked_fill(below, -torch.inf)
    return torch.empty_like(values).scatter_(1, indices, values)
