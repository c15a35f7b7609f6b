"""Activations, losses and their gradients."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from ...ge import kernel
from .checks import check_same_shape

aten = torch.ops.aten
# Rounding error of an attribute that is stored as float32.
_TOLERANCE = 1e-7
_REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}


@kernel("Relu")
def relu(x: Tensor) -> Tensor:
    return torch.relu(x)


@kernel("ReluGrad")
def relu_grad(gradients: Tensor, features: Tensor) -> Tensor:
    return aten.threshold_backward(gradients, features, 0)


@kernel("ThresholdGradV2D")
def threshold_grad(gradients: Tensor, features: Tensor, *, threshold: float) -> Tensor:
    return aten.threshold_backward(gradients, features, threshold)


@kernel("ThresholdV2")
def threshold_v2(x: Tensor, threshold: Tensor, value: Tensor | None = None) -> Tensor:
    return torch.where(x <= threshold, torch.zeros_like(x) if value is None else value.to(x.dtype), x)


@kernel("Sigmoid", flops=4)
def sigmoid(x: Tensor) -> Tensor:
    return torch.sigmoid(x.contiguous())


@kernel("SigmoidGrad")
def sigmoid_grad(y: Tensor, dy: Tensor) -> Tensor:
    return aten.sigmoid_backward(dy, y)


@kernel("TanhGrad")
def tanh_grad(y: Tensor, dy: Tensor) -> Tensor:
    return aten.tanh_backward(dy, y)


@kernel("Elu")
def elu(x: Tensor, *, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Tensor:
    return aten.elu(x.contiguous(), alpha, scale, input_scale)


@kernel("EluGradV2")
def elu_grad(
    grads: Tensor,
    activations: Tensor,
    *,
    alpha: float = 1.0,
    scale: float = 1.0,
    input_scale: float = 1.0,
    is_result: bool = False,
) -> Tensor:
    return aten.elu_backward(grads.contiguous(), alpha, scale, input_scale, is_result, activations.contiguous())


@kernel("Gelu", flops=8)
def gelu(x: Tensor) -> Tensor:
    """Compute GELU with the exact normal distribution function, as GE defines it; a device kernel may approximate."""
    return functional.gelu(x.contiguous())


@kernel("GeluGrad")
def gelu_grad(dy: Tensor, x: Tensor, y: Tensor | None = None) -> Tensor:  # noqa: ARG001
    return aten.gelu_backward(dy.contiguous(), x.contiguous())


@kernel("Swish", flops=5)
def swish(x: Tensor, *, scale: float = 1.0) -> Tensor:
    x = x.contiguous()
    return functional.silu(x) if scale == 1.0 else x * torch.sigmoid(scale * x)


@kernel("SiluGrad")
def silu_grad(dy: Tensor, x: Tensor) -> Tensor:
    return aten.silu_backward(dy.contiguous(), x.contiguous())


@kernel("GLU")
def glu(x: Tensor, *, dim: int = -1) -> Tensor:
    return functional.glu(x, dim)


@kernel("GLUGrad")
def glu_grad(y_grad: Tensor, x: Tensor, *, dim: int) -> Tensor:
    return aten.glu_backward(y_grad, x, dim)


@kernel("HardSwish")
def hard_swish(x: Tensor) -> Tensor:
    return functional.hardswish(x)


@kernel("HardSwishGrad")
def hard_swish_grad(grad: Tensor, x: Tensor) -> Tensor:
    return aten.hardswish_backward(grad, x)


@kernel("HardSigmoid")
def hard_sigmoid(input_x: Tensor, *, alpha: float = 1 / 6, beta: float = 0.5) -> Tensor:
    if abs(alpha - 1 / 6) < _TOLERANCE and beta == 0.5:
        return functional.hardsigmoid(input_x)
    return torch.clamp(input_x.float() * alpha + beta, 0, 1).to(input_x.dtype)


@kernel("HardSigmoidGrad")
def hard_sigmoid_grad(grads: Tensor, input_x: Tensor, *, alpha: float = 1 / 6, beta: float = 0.5) -> Tensor:
    linear = input_x.float() * alpha + beta
    return torch.where((linear > 0) & (linear < 1), grads * alpha, torch.zeros_like(grads))


@kernel("HardtanhGrad")
def hardtanh_grad(result: Tensor, grad: Tensor, *, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    return torch.where((result <= min_val) | (result >= max_val), torch.zeros_like(grad), grad)


@kernel("LeakyRelu")
def leaky_relu(x: Tensor, *, negative_slope: float = 0.0) -> Tensor:
    return functional.leaky_relu(x, negative_slope)


@kernel("LeakyReluGrad")
def leaky_relu_grad(gradients: Tensor, features: Tensor, *, negative_slope: float = 0.0) -> Tensor:
    return aten.leaky_relu_backward(gradients, features, negative_slope, False)


@kernel("PRelu")
def prelu(x: Tensor, weight: Tensor) -> Tensor:
    shape = [-1] if x.dim() < 2 else [1, -1] + [1] * (x.dim() - 2)
    return torch.where(x > 0, x, weight.reshape(shape) * x)


@kernel("SoftplusV2")
def softplus(x: Tensor, *, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    return functional.softplus(x.contiguous(), beta, threshold)


@kernel("Mish", flops=6)
def mish(x: Tensor) -> Tensor:
    return functional.mish(x.contiguous())


@kernel("LogSigmoid", flops=5)
def log_sigmoid(x: Tensor) -> Tensor:
    return functional.logsigmoid(x.contiguous())


@kernel("LogSigmoidGrad", flops=5)
def log_sigmoid_grad(grads: Tensor, features: Tensor) -> Tensor:
    # The CPU's operator also reads a buffer of its forward pass, whose exponentials differ from torch.exp's.
    return aten.log_sigmoid_backward(grads, features, aten.log_sigmoid_forward(features)[1])


@kernel("SoftmaxV2", flops=5)
def softmax(x: Tensor, *, axes: Sequence[int] = (-1,), half_to_float: bool = False) -> Tensor:
    return torch.softmax(x.float() if half_to_float else x, axes[0])


@kernel("SoftmaxGrad")
def softmax_grad(softmax: Tensor, grad_softmax: Tensor, *, axes: Sequence[int] = (-1,)) -> Tensor:
    return aten._softmax_backward_data(grad_softmax, softmax, axes[0], softmax.dtype)


@kernel("LogSoftmaxV2")
def log_softmax(logits: Tensor, *, axes: Sequence[int] = (-1,)) -> Tensor:
    return torch.log_softmax(logits, axes[0])


@kernel("LogSoftmaxGrad")
def log_softmax_grad(grad: Tensor, x: Tensor, *, axis: Sequence[int] = (-1,)) -> Tensor:
    check_same_shape(grad=grad, x=x)
    return aten._log_softmax_backward_data(grad, x, axis[0], x.dtype)


@kernel("MseLoss")
def mse_loss(predict: Tensor, label: Tensor, *, reduction: str = "mean") -> Tensor:
    return aten.mse_loss(predict, label, _REDUCTIONS[reduction])


@kernel("MseLossGrad")
def mse_loss_grad(predict: Tensor, label: Tensor, dout: Tensor, *, reduction: str = "mean") -> Tensor:
    return aten.mse_loss_backward(dout, predict, label, _REDUCTIONS[reduction])


@kernel("NLLLoss")
def nll_loss(
    x: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    reduction: str = "mean",
    ignore_index: int = -100,
) -> tuple[Tensor, Tensor]:
    return aten.nll_loss_forward(x, target.to(torch.int64), weight, _REDUCTIONS[reduction], ignore_index)


@kernel("NLLLossGrad")
def nll_loss_grad(
    x: Tensor,
    y_grad: Tensor,
    target: Tensor,
    weight: Tensor | None,
    total_weight: Tensor,
    *,
    reduction: str = "mean",
    ignore_index: int = -100,
) -> Tensor:
    mode = _REDUCTIONS[reduction]
    return aten.nll_loss_backward(y_grad, x, target.to(torch.int64), weight, mode, ignore_index, total_weight)
