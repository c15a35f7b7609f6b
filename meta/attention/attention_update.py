"""npu_attention_update: rules and results.

Up to sixteen parts: lse (rows,), float32, and local_out (rows, channels), channels a multiple of 8 up to 512.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import FLOATS, Rules
from graph_quant.reference.attention.attention_update import attention_update as reference
from torch import Tensor

MOST_PARTS, MOST_CHANNELS = 16, 512


@operator("npu_attention_update", reference=reference)
def attention_update(rules: Rules, lse: Sequence[Tensor], local_out: Sequence[Tensor], update_type: int) -> Plan:
    """Checks a call against the documented rules, and returns its plan."""
    rules.require(1 <= len(lse) <= MOST_PARTS, lambda: f"lse must have 1 to {MOST_PARTS} tensors, got {len(lse)}")
    rules.require(
        len(local_out) == len(lse),
        lambda: f"local_out must have as many tensors as lse, got {len(local_out)} and {len(lse)}",
    )
    rules.require(update_type in (0, 1), lambda: f"update_type must be 0 or 1, got {update_type}")
    first = local_out[0]
    for index, (part, out) in enumerate(zip(lse, local_out, strict=True)):
        rules.dtype(f"lse[{index}]", part, (torch.float32,))
        rules.rank(f"lse[{index}]", part, 1)
        rules.dtype(f"local_out[{index}]", out, FLOATS if out is first else (first.dtype,))
        rules.rank(f"local_out[{index}]", out, 2)
        rules.equal(f"lse[{index}].size(0)", part.size(0), "local_out[0].size(0)", first.size(0))
        for dim in range(2):
            rules.equal(f"local_out[{index}].size({dim})", out.size(dim), f"local_out[0].size({dim})", first.size(dim))
    channels = first.size(1)
    rules.require(channels % 8 == 0, lambda: f"local_out[0].size(1) must be a multiple of 8, got {channels}")
    rules.require(
        channels <= MOST_CHANNELS, lambda: f"local_out[0].size(1) must be at most {MOST_CHANNELS}, got {channels}"
    )
    rules.at_least("local_out[0].size(1)", channels, 8)
    return Plan((Result(tuple(first.shape), first.dtype), Result((first.size(0),), torch.float32)))
