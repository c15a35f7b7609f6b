"""npu_gelu_mul becomes GeluMul, of which TorchAir has no converter."""

from __future__ import annotations

from graph_quant.converters.lowering import lowers
from torchair._ge_concrete_graph.compat_ir import ge_op
from torchair.ge import attr
from torchair.ge._ge_graph import Tensor


@lowers("npu_gelu_mul")
def lower(x: Tensor, approximate: str) -> Tensor:
    """The GE node of one call."""
    y: Tensor = ge_op(op_type="GeluMul", inputs={"x": x}, outputs=["y"], attrs={"approximate": attr.Str(approximate)})
    y.desc.dtype = x.desc.dtype
    return y
