"""npu_format_cast in a graph becomes Identity: GE chooses the layouts of a graph's tensors itself."""

from __future__ import annotations

from graph_quant.converters.lowering import lowers
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import Tensor


@lowers("npu_format_cast")
def lower(x: Tensor) -> Tensor:
    """The GE node of one call."""
    return ge.Identity(x)
