"""apply_token_bitmask: logits of tokens that a grammar does not allow become minus infinity, in place.

A row of the bitmask has 32 tokens in each int32, the first in the lowest bit; tokens beyond it are not allowed. With
``indices``, only those rows of the logits and of the bitmask are used; without any, all.
"""

from __future__ import annotations

import torch
from graph_quant.meta import Plan, Rules, operator
from graph_quant.meta.rules import FLOATS
from graph_quant.reference.index_checks import checked_index
from torch import Tensor

_OP, _BITS = "apply_token_bitmask", 32


def apply_token_bitmask(logits: Tensor, bitmask: Tensor, indices: Tensor | None) -> Tensor:
    """Mask the logits; return them."""
    if indices is None or indices.numel() == 0:
        rows = torch.arange(logits.size(0))
    else:
        rows = checked_index(_OP, "indices", indices, 0, logits.size(0)).long()
    shifts = torch.arange(_BITS, dtype=torch.int32)
    bits = ((bitmask[rows].unsqueeze(-1) >> shifts) & 1).flatten(1)[:, : logits.size(1)].bool()
    allowed = torch.nn.functional.pad(bits, (0, logits.size(1) - bits.size(1)))
    logits[rows] = logits[rows].masked_fill(~allowed, -torch.inf)
    return logits


@operator(f"npu::{_OP}", reference=apply_token_bitmask)
def rules_of_apply_token_bitmask(rules: Rules, logits: Tensor, bitmask: Tensor, indices: Tensor | None) -> Plan:
    """Check a call by the extension's host code; it returns the logits."""
    rules.dtype("logits", logits, FLOATS)
    rules.rank("logits", logits, 2)
    rules.dtype("bitmask", bitmask, (torch.int32,))
    rules.rank("bitmask", bitmask, 2)
    rules.at_least("logits.size(1)", logits.size(1), 1)
    for name, tensor in (("logits", logits), ("bitmask", bitmask)):
        rules.require(tensor.is_contiguous(), lambda: f"{name} must be contiguous, got {list(tensor.stride())}")  # noqa: B023
    rules.equal("bitmask.size(0)", bitmask.size(0), "logits.size(0)", logits.size(0))
    if indices is not None:
        rules.rank("indices", indices, 1)
        rules.dtype("indices", indices, (torch.int32, torch.int64))
    return Plan(("logits",))
