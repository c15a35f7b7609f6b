"""npu_prefetch: argument rules; there is no result."""

from __future__ import annotations

from graph_quant.meta.operator import Plan, operator
from graph_quant.meta.rules import Rules
from graph_quant.reference.cache.prefetch import prefetch as reference
from torch import Tensor


@operator("npu_prefetch", reference=reference)
def prefetch(rules: Rules, x: Tensor, dependency: Tensor | None, max_size: int, offset: int) -> Plan:  # noqa: ARG001
    """Check a call against the documented rules and return its plan."""
    rules.at_least("max_size", max_size, 1)
    size = x.numel() * x.element_size()
    rules.require(
        offset == 0 or 0 < offset < size,
        lambda: f"offset must lie in input, which has {size} bytes, got {offset}",
    )
    return Plan(())
