"""npu_gelu_backward becomes GeluGradV2, of tensors that were cast to one dtype and broadcast to one shape.

GE infers the shape of the node's first input, so that a smaller one is multiplied by ones of the other's shape first.
"""

from __future__ import annotations

import torch
from graph_quant.converters.lowering import in_type, lowers
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import Tensor


@lowers("npu_gelu_backward")
def lower(grad_output: Tensor, x: Tensor, approximate: str) -> Tensor:
    """The GE nodes of one call."""
    is_one_shape = list(grad_output.meta.shape) == list(x.meta.shape)
    dtype = torch.promote_types(grad_output.meta.dtype, x.meta.dtype)
    operands, at = in_type(dtype, grad_output, x)
    if not is_one_shape:
        operands, at = ge.Mul(operands, ge.OnesLike(at)), ge.Mul(at, ge.OnesLike(operands))
    result: Tensor = ge.GeluGradV2(operands, at, approximate=approximate)
    return result
