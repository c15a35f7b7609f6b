"""batch_norm_reduce: argument rules and results.

input is (N, C, H, W) of float32, float16 or bfloat16. eps is reserved.
"""

from __future__ import annotations

import torch
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import FLOATS, Rules
from graph_quant.reference.norm.batch_norm_reduce import batch_norm_reduce as reference
from torch import Tensor


@operator("batch_norm_reduce", reference=reference)
def batch_norm_reduce(rules: Rules, x: Tensor, eps: float) -> Plan:  # noqa: ARG001 - reserved
    """Check a call against the documented rules and return its plan."""
    rules.dtype("input", x, FLOATS)
    rules.rank("input", x, 4)
    channels = Result((x.size(1),), torch.float32)
    return Plan((channels, channels))
