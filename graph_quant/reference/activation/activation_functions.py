"""SiLU, GELU, ReLU and SwiGLU in float32, with a rounding after each operation.

The exponential is computed in float64 and rounded, so that it is correctly rounded on every processor and in compiled
code too. The device's may be off by one bit; no source documents it.
"""

from __future__ import annotations

import torch
from torch import Tensor

RELU, GELU_TANH, GELU_ERF, FAST_GELU, SILU = 1, 2, 3, 4, 5
# The polynomial p for which ``1 / (1 + exp(x * p(x * x)))`` approximates the normal CDF between the limits.
_ERF = (-0.3512339572e-8, 0.2645266170e-6, -0.7929488134e-5, 0.1106123840e-3, 0.6518995814e-4, -0.7266616915e-1)
_ERF_CONSTANT, _ERF_LOW, _ERF_HIGH = -0.1595769883e1, -13.15, 5.751


def exp_float32(values: Tensor) -> Tensor:
    """``exp(values)``, correctly rounded to float32."""
    return values.double().exp_().float()


def swish(values: Tensor, alpha: float = 1.0) -> Tensor:
    """``values * sigmoid(alpha * values)``, as one division."""
    return values / exp_float32(values * -alpha).add_(1.0)


def apply_activation(values: Tensor, act_type: int) -> Tensor:
    """The activation that ``act_type`` of the grouped matmuls selects, of float32 ``values``; 0 is the identity."""
    if act_type == RELU:
        return values.relu()
    if act_type == GELU_TANH:
        cubed = values * values * values * 0.044715
        return values / (1.0 + exp_float32((values + cubed) * -1.5957691))
    if act_type == GELU_ERF:
        return gelu_erf(values, _ERF_LOW, _ERF_HIGH)
    if act_type == FAST_GELU:
        return swish(values, 1.702)
    return swish(values) if act_type == SILU else values


# 1 / 0.044715, and -1.595769121 * 0.044715, as the kernels of Ascend 950 group the factors of the cubic polynomial.
_INVERSE_CUBIC, _OF_CUBIC = 1 / 0.044715, -1.595769121 * 0.044715


def apply_activation_950(values: Tensor, act_type: int) -> Tensor:
    """The activation of the grouped matmuls of Ascend 950, which scale the polynomial of GELU in another order."""
    if act_type != GELU_TANH:
        return apply_activation(values, act_type)
    cubed = values * values * values
    # A fused multiply and add: one rounding.
    polynomial = (values.double() * torch.tensor(_INVERSE_CUBIC).double() + cubed.double()).float()
    return values / (1.0 + exp_float32(polynomial * torch.tensor(_OF_CUBIC)))


def gelu_erf(values: Tensor, low: float, high: float) -> Tensor:
    """GELU of float32 ``values``, with the kernels' polynomial approximation of erf and its limits."""
    values = values.clamp(min=low)
    limited = values.clamp(max=high)
    squared = limited * limited
    exponent = squared * _ERF[0]
    for coefficient in _ERF[1:]:
        exponent = (exponent + coefficient) * squared
    return values / (1.0 + exp_float32((exponent + _ERF_CONSTANT) * limited))


EVEN_ODD, CLAMPED = 1, 2


def apply_swiglu(values: Tensor, activate_left: bool, mode: int, limit: float, alpha: float, bias: float) -> Tensor:
    """``swish(a) * b`` of the halves of float32 ``values``; a is the left half or the right.

    Modes 1 and 2 clamp both and add ``bias`` to b. In mode 1 a is the even columns and b the odd ones.
    """
    if mode == EVEN_ODD:
        swished, linear = values[..., ::2], values[..., 1::2]
    else:
        swished, linear = values.chunk(2, -1) if activate_left else values.chunk(2, -1)[::-1]
    if mode:
        return swish(swished.clamp(max=limit), alpha).mul_(linear.clamp(-limit, limit) + bias)
    return swish(swished).mul_(linear)
