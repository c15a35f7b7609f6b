"""npu_quant_matmul_gelu: an integer matrix product with a scale for each row and column, and GELU.

``v = (x1 @ x2 (+ int32 bias)) * x2_scale * x1_scale (+ float bias)`` in float32, then ``v / (1 + exp(p(v)))``, where
p(v) is twice the negative argument of the hyperbolic tangent (gelu_tanh) or, for v between -13.15 and 5.751, a
polynomial that approximates the error function (gelu_erf). Each operation rounds to float32, the result once more.
"""

from __future__ import annotations

from graph_quant.destination import Destination, element_destination
from graph_quant.ge import CONTRACTION, kernel
from graph_quant.reference.activation.activation_functions import GELU_ERF, GELU_TANH, apply_activation
from graph_quant.reference.matmul.int8_matmul_dequant import dequantise
from graph_quant.reference.matmul.quant_matmul import accumulated
from torch import Tensor

GELUS = {"gelu_erf": GELU_ERF, "gelu_tanh": GELU_TANH}


def quant_matmul_gelu(
    x1: Tensor,
    x2: Tensor,
    x1_scale: Tensor,
    x2_scale: Tensor,
    bias: Tensor | None,
    gelu: str,
    output: Destination,
    packed_along_k: bool,
) -> Tensor:
    """The product after GELU; with ``packed_along_k`` int4 of x2 is packed along k, else along n."""
    accumulator, bias = accumulated(x1, x2, bias, packed_along_k)
    return apply_activation(dequantise(accumulator, x2_scale, x1_scale, bias), GELUS[gelu]).to(output.storage)


@kernel("FusedQuantMatMul", flops=CONTRACTION)
def fused_quant_matmul(
    x1: Tensor,
    x2: Tensor,
    bias: Tensor | None = None,
    x1_scale: Tensor | None = None,
    x2_scale: Tensor | None = None,
    *,
    dtype: int,
    transpose_x1: bool = False,
    transpose_x2: bool = False,
    fused_op_type: str = "",
) -> Tensor:
    if fused_op_type not in GELUS:
        raise RuntimeError(f"FusedQuantMatMul: fused_op_type must be gelu_erf or gelu_tanh, got {fused_op_type!r}")
    assert x1_scale is not None
    assert x2_scale is not None
    left, right = x1.mT if transpose_x1 else x1, x2.mT if transpose_x2 else x2
    output = element_destination(dtype)
    return quant_matmul_gelu(left, right, x1_scale, x2_scale, bias, fused_op_type, output, False)
