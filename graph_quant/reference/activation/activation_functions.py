"""The functions that gate: ``x / (1 + exp(-x))`` and its kin, in float32 with a rounding after each operation.

The exponential is taken in float64 and rounded, so that it is the float32 nearest to the true value on every processor
and in compiled code too. The device's own may be off by its last bit, which no source states.
"""

from __future__ import annotations

from torch import Tensor

RELU, GELU_TANH, GELU_ERF, FAST_GELU, SILU = 1, 2, 3, 4, 5
# The polynomial p of which ``1 / (1 + exp(x * p(x * x)))`` is the normal distribution function between the limits.
_ERF = (-0.3512339572e-8, 0.2645266170e-6, -0.7929488134e-5, 0.1106123840e-3, 0.6518995814e-4, -0.7266616915e-1)
_ERF_CONSTANT, _ERF_LOW, _ERF_HIGH = -0.1595769883e1, -13.15, 5.751


def exp_float32(values: Tensor) -> Tensor:
    """``exp(values)``, the nearest float32."""
    return values.double().exp_().float()


def swish(values: Tensor, alpha: float = 1.0) -> Tensor:
    """``values * sigmoid(alpha * values)``, as one division."""
    return values / exp_float32(values * -alpha).add_(1.0)


def apply_activation(values: Tensor, act_type: int) -> Tensor:
    """What ``act_type`` of the grouped products makes of float32 ``values``; 0 leaves them."""
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


def gelu_erf(values: Tensor, low: float, high: float) -> Tensor:
    """The gelu of float32 ``values`` by the polynomial that kernels take for the error function, within its limits."""
    values = values.clamp(min=low)
    limited = values.clamp(max=high)
    squared = limited * limited
    exponent = squared * _ERF[0]
    for coefficient in _ERF[1:]:
        exponent = (exponent + coefficient) * squared
    return values / (1.0 + exp_float32((exponent + _ERF_CONSTANT) * limited))


EVEN_ODD = 1


def apply_swiglu(values: Tensor, activate_left: bool, mode: int, limit: float, alpha: float, bias: float) -> Tensor:
    """``swish(a) * b`` of the halves of float32 ``values``, the left one swished or the right.

    The modes 1 and 2 limit both and add ``bias`` to b; mode 1 takes even and odd columns for halves, the even swished.
    """
    if mode == EVEN_ODD:
        swished, linear = values[..., ::2], values[..., 1::2]
    else:
        swished, linear = values.chunk(2, -1) if activate_left else values.chunk(2, -1)[::-1]
    if mode:
        return swish(swished.clamp(max=limit), alpha).mul_(linear.clamp(-limit, limit) + bias)
    return swish(swished).mul_(linear)
