"""npu_sim_exponential_, which fills its argument: argument rules."""

from __future__ import annotations

import torch
from graph_quant.meta.operator import Plan, operator
from graph_quant.meta.rules import FLOATS, Rules
from graph_quant.reference.general.sim_exponential import sim_exponential as reference
from torch import Tensor

MOST = 8


@operator("npu_sim_exponential_", reference=reference)
def sim_exponential(
    rules: Rules,
    x: Tensor,
    lambd: float,
    generator: torch.Generator | None,  # noqa: ARG001 - that of the device, or another
) -> Plan:
    """Check a call against the documented rules and return its plan."""
    rules.dtype("input", x, FLOATS)
    rules.rank("input", x, 0, MOST)
    rules.require(x.is_contiguous(), lambda: f"input must be contiguous, got strides {list(x.stride())}")
    rules.require(lambd > 0, lambda: f"lambd must be above 0, got {lambd}")
    return Plan(("x",))
