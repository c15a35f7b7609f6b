"""npu_quant_scatter_ becomes QuantUpdateScatter with explicit axes, also where the call uses the defaults."""

from __future__ import annotations

from graph_quant.converters.lowering import lowers
from graph_quant.destination import INT8
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import Tensor, dont_prune_me


@lowers("npu_quant_scatter_")
def lower(
    x: Tensor,
    indices: Tensor,
    updates: Tensor,
    quant_scales: Tensor,
    quant_zero_points: Tensor | None,
    axis: int,
    quant_axis: int,
    reduce: str,
) -> Tensor:
    """The GE node of one call, kept though nothing may read its result."""
    y: Tensor = ge.QuantUpdateScatter(
        x, indices, updates, quant_scales, quant_zero_points, reduce=reduce, axis=axis, quant_axis=quant_axis
    )
    y.desc.dtype = INT8.ge_desc
    dont_prune_me(y)
    return y
