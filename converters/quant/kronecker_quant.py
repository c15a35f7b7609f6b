"""npu_kronecker_quant becomes FlatQuant, whose int4 Reshape and Bitcast pack; TorchAir computes their shape first."""

from __future__ import annotations

from graph_quant.converters.lowering import lowers, stored
from graph_quant.destination import INT4
from graph_quant.meta.quant.kronecker_quant import KroneckerQuantPlan
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import Tensor


@lowers("npu_kronecker_quant")
def lower(plan: KroneckerQuantPlan, x: Tensor, kronecker_p1: Tensor, kronecker_p2: Tensor) -> tuple[Tensor, Tensor]:
    """The GE nodes of one call."""
    elements, scale = ge.FlatQuant(x, kronecker_p1, kronecker_p2, clip_ratio=plan.ratio, dst_dtype=INT4.ge_attr)
    return stored(elements, INT4, [0, 0]), scale
