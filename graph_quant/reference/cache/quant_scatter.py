"""npu_quant_scatter and npu_quant_scatter_: quantises updates and writes them as scatter_update does.

``sat(rint(updates / quant_scales + quant_zero_points))`` in float32, with a true division as in npu_quantize: the
kernel of A2 and A3 is not public, and torch_npu's tests compare it with that operator.
"""

from __future__ import annotations

from graph_quant.ge import kernel
from graph_quant.reference.cache.scatter_update import write_updates
from graph_quant.reference.quant.quantize import quantize
from torch import Tensor


def quant_scatter_(
    x: Tensor, indices: Tensor, updates: Tensor, quant_scales: Tensor, quant_zero_points: Tensor | None, axis: int
) -> Tensor:
    """``x`` with the quantised ``updates``, written in place."""
    zero_points = None if quant_zero_points is None else quant_zero_points.reshape(-1)
    quantised = quantize(updates, quant_scales.reshape(-1), zero_points, divide=True)
    return write_updates("npu_quant_scatter", x, indices, quantised, axis)


def quant_scatter(
    x: Tensor, indices: Tensor, updates: Tensor, quant_scales: Tensor, quant_zero_points: Tensor | None, axis: int
) -> Tensor:
    """A copy of ``x`` with the quantised ``updates``."""
    return quant_scatter_(x.clone(), indices, updates, quant_scales, quant_zero_points, axis)


@kernel("QuantUpdateScatter", flops=3, may_alias=True)
def quant_update_scatter(
    var: Tensor,
    indices: Tensor,
    updates: Tensor,
    quant_scales: Tensor,
    quant_zero_points: Tensor | None = None,
    *,
    reduce: str,
    axis: int = -2,
    quant_axis: int = -1,
    reciprocal_scale: bool = False,
    round_mode: str = "rint",
) -> Tensor:
    if (
        reduce != "update"
        or reciprocal_scale
        or round_mode != "rint"
        or quant_axis % updates.dim() != updates.dim() - 1
    ):
        raise NotImplementedError("QuantUpdateScatter: only 'update' along the last axis, divided and rounded by rint")
    return quant_scatter_(var, indices, updates, quant_scales, quant_zero_points, axis)
