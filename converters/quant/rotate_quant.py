"""npu_rotate_quant becomes RotateQuant, whose int4 Reshape and Bitcast pack.

TorchAir's converter uses uint8 if dst_dtype is omitted, where the documents say int8.
"""

from __future__ import annotations

from graph_quant.converters.lowering import lowers, stored
from graph_quant.meta.quant.rotate_quant import RotateQuantPlan
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import Tensor


@lowers("npu_rotate_quant")
def lower(plan: RotateQuantPlan, x: Tensor, rotation: Tensor, round_mode: str | None) -> tuple[Tensor, Tensor]:
    """The GE nodes of one call."""
    y, scale = ge.RotateQuant(x, rotation, None, y_dtype=plan.destination.ge_attr, round_mode=round_mode or "rint")
    return stored(y, plan.destination, [0]), scale
