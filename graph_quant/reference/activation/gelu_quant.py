"""npu_gelu_quant: GELU with static quantisation, or with dynamic quantisation per row.

In float32 with a rounding after each operation, as the kernel of A2 and A3 computes it:

* gelu, approximate "tanh": ``x / (1 + exp(-1.5957691 * (x + 0.044715 * x**3)))``; "none": ``x / (1 + exp(p(x) * x))``
  with p of degree twelve in x clamped to 5.75 from above, and x itself clamped to -13.15 from below;
* static: ``sat(rint(gelu * input_scale + input_offset))``;
* dynamic: ``v = gelu * input_scale``, ``y = rint(v * (127 / absmax(v)))``; the scale is ``1 / (127 / absmax(v))``, zero
  for a row of zeros.

The kernel rounds to float16 with round-to-odd before int8, which does not change the nearest integer.
"""

from __future__ import annotations

import torch
from graph_quant.destination import INT8
from graph_quant.ge import kernel
from graph_quant.reference.activation.activation_functions import GELU_TANH, apply_activation, exp_float32
from graph_quant.reference.rounding import affine, saturate
from torch import Tensor

STATIC, DYNAMIC = "static", "dynamic"
_LOWEST, _HIGHEST = -13.15, 5.75
# Coefficients of descending powers of x squared.
_EXACT = (-0.3512339572e-8, 0.2645266170e-6, -0.7929488134e-5, 0.1106123840e-3, 0.6518995814e-4, -0.7266616915e-1)
_LINEAR = -0.1595769883e1


def gelu_quant(
    x: Tensor, input_scale: Tensor | None, input_offset: Tensor | None, approximate: str, quant_mode: str
) -> tuple[Tensor, Tensor | None]:
    """The integers, and the scales of the rows for dynamic quantisation."""
    values = apply_activation(x.float(), GELU_TANH) if approximate == "tanh" else _exact(x.float())
    if quant_mode == STATIC:
        assert input_scale is not None
        return affine(values, input_scale, input_offset, INT8), None
    values = values if input_scale is None else values * input_scale.float()
    largest = values.abs().amax(-1, keepdim=True)
    # torch computes scalar / tensor as scalar * reciprocal, which rounds twice.
    multiplier = torch.full_like(largest, INT8.high) / largest
    return saturate(values * multiplier, INT8), (torch.ones_like(multiplier) / multiplier).squeeze(-1)


def _exact(x: Tensor) -> Tensor:
    x = x.clamp(min=_LOWEST)
    limited = x.clamp(max=_HIGHEST)
    squared = limited * limited
    total = squared * _EXACT[0] + _EXACT[1]
    for coefficient in (*_EXACT[2:], _LINEAR):
        total = total * squared + coefficient
    return x / (exp_float32(total * limited) + 1.0)


@kernel("GeluQuant", flops=24)
def gelu_quant_node(
    x: Tensor,
    input_scale: Tensor | None = None,
    input_offset: Tensor | None = None,
    *,
    approximate: str = "none",
    quant_mode: str = DYNAMIC,
    dst_type: int = INT8.ge_attr,
    round_mode: str = "rint",
) -> tuple[Tensor, Tensor]:
    if dst_type != INT8.ge_attr or round_mode != "rint":
        raise NotImplementedError("GeluQuant: other types than int8 and roundings than 'rint' are of Ascend 950")
    y, scale = gelu_quant(x, input_scale, input_offset, approximate, quant_mode)
    return y, x.new_empty(0, dtype=torch.float32) if scale is None else scale
