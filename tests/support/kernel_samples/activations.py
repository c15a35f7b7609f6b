"""Activations, losses, and their gradients against autograd."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch

from support.kernel_samples.base import FLOATS, NUMBERS, Case, axis_of, gradient, kernel_sample, plain, shape, tensor

aten, functional = torch.ops.aten, torch.nn.functional


def _floats(chance: random.Random, count: int = 1, **limits: Any) -> list[torch.Tensor]:
    full, dtype = shape(chance, **limits), chance.choice(FLOATS)
    return [tensor(chance, full, dtype) for _ in range(count)]


def _gradient(
    op_type: str,
    call: Callable[..., Any],
    order: str = "dy x",
    result: str = "x",
    bound: float = 0.0,
    kinds: tuple[torch.dtype, ...] = FLOATS,
    **settings: Callable[[random.Random], Any],
) -> None:
    """A gradient's kernel gets dy and x, or dy and the result of the call on x, in this order."""

    @kernel_sample(op_type)
    def make(chance: random.Random) -> Case:
        full, dtype = shape(chance), chance.choice(kinds)
        x, dy = (tensor(chance, full, dtype) for _ in range(2))
        if bound:
            x, dy = plain(x.shape, x.dtype), plain(x.shape, x.dtype)
        attributes = {name: choose(chance) for name, choose in settings.items()}
        expected = gradient(lambda inputs: call(inputs, **attributes), 0, dy, x)
        inputs = {"dy": dy, "x": x if result == "x" else call(x, **attributes)}
        return Case([inputs[name] for name in order.split()], attributes, expected, bound)


_gradient("ReluGrad", torch.relu)
_gradient("SigmoidGrad", torch.sigmoid, "x dy", "y")
_gradient("TanhGrad", torch.tanh, "x dy", "y")
_gradient("GeluGrad", functional.gelu)
_gradient("GeluGradV2", functional.gelu, approximate=lambda chance: chance.choice(("none", "tanh")))
_gradient("SiluGrad", functional.silu)
_gradient("HardSwishGrad", functional.hardswish)
_gradient("LeakyReluGrad", functional.leaky_relu, negative_slope=lambda chance: chance.choice((0.125, 0.0625)))
_gradient("SwishGrad", lambda x, scale: x * torch.sigmoid(scale * x), bound=8, scale=lambda c: c.choice((1.0, 2.0)))
# ATen has a sixth in float32 for float64 too.
_gradient("HardSigmoidGrad", functional.hardsigmoid, bound=1, kinds=FLOATS[:3])


@kernel_sample("HardtanhGrad")
def hardtanh_grad(chance: random.Random) -> Case:
    """No NaN: ATen passes its gradient in short rows and stops it in long ones."""
    x, dy = _floats(chance, 2)
    x, most = torch.where(x.isnan(), torch.ones_like(x), x), chance.choice((1.0, 2.0))
    expected = gradient(lambda a: functional.hardtanh(a, -1.0, most), 0, dy, x)
    return Case([x, dy], {"max_val": most}, expected)


_gradient(
    "ThresholdGradV2D",
    lambda x, threshold: functional.threshold(x, threshold, 0),
    threshold=lambda chance: chance.choice((0.0, 0.5)),
)


def _elu(x: torch.Tensor, alpha: float, scale: float, input_scale: float) -> torch.Tensor:
    return aten.elu(x, alpha, scale, input_scale)


def _elu_settings(chance: random.Random) -> dict[str, float]:
    return {name: chance.choice((1.0, 1.5)) for name in ("alpha", "scale", "input_scale")}


@kernel_sample("Elu")
def elu(chance: random.Random) -> Case:
    (x,) = _floats(chance)
    settings = _elu_settings(chance)
    return Case([x], settings, _elu(x, **settings))


@kernel_sample("EluGradV2")
def elu_grad(chance: random.Random) -> Case:
    x, dy = _floats(chance, 2)
    settings = _elu_settings(chance)
    from_result = chance.random() < 0.5
    if not from_result:
        return Case([dy, x], {**settings, "is_result": False}, gradient(lambda g: _elu(g, **settings), 0, dy, x))
    # In place, autograd keeps the result.
    expected = gradient(lambda g: aten.elu_(g.clone(), *settings.values()), 0, dy, x)
    return Case([dy, _elu(x, **settings)], {**settings, "is_result": True}, expected)


@kernel_sample("GeluV2")
def gelu(chance: random.Random) -> Case:
    (x,) = _floats(chance)
    approximate = chance.choice(("none", "tanh"))
    return Case([x], {"approximate": approximate}, functional.gelu(x, approximate=approximate))


@kernel_sample("Swish")
def swish(chance: random.Random) -> Case:
    (x,) = _floats(chance)
    if chance.random() < 0.5:
        return Case([x], {}, functional.silu(x))
    x = plain(x.shape)
    return Case([x], {"scale": 2.0}, (x.double() * torch.sigmoid(2 * x.double())).float(), bound=4)


@kernel_sample("HardSigmoid")
def hard_sigmoid(chance: random.Random) -> Case:
    x = plain(shape(chance), chance.choice(FLOATS[:3])) * 3
    return Case([x], {}, functional.hardsigmoid(x.double()).to(x.dtype), bound=1)


@kernel_sample("LeakyRelu")
def leaky_relu(chance: random.Random) -> Case:
    (x,) = _floats(chance)
    slope = chance.choice((0.0, 0.125))
    return Case([x], {"negative_slope": slope}, functional.leaky_relu(x, slope))


@kernel_sample("PRelu")
def prelu(chance: random.Random) -> Case:
    (x,) = _floats(chance, least=2)
    weight = plain([chance.choice((1, x.size(1)))], x.dtype)
    return Case([x, weight], {}, functional.prelu(x, weight))


@kernel_sample("ThresholdV2")
def threshold(chance: random.Random) -> Case:
    x = tensor(chance, shape(chance), chance.choice(NUMBERS))
    value = chance.choice((0, 3))
    inputs = [x, torch.tensor(1, dtype=x.dtype), *([torch.tensor(value, dtype=x.dtype)] if value else [])]
    return Case(inputs, {}, functional.threshold(x, 1, value))


@kernel_sample("SoftplusV2")
def softplus(chance: random.Random) -> Case:
    (x,) = _floats(chance)
    beta, limit = chance.choice((1.0, 2.0)), chance.choice((20.0, 1.0))
    return Case([x], {"beta": beta, "threshold": limit}, functional.softplus(x, beta, limit))


@kernel_sample("GLU")
def glu(chance: random.Random) -> Case:
    (x,) = _floats(chance, least=1)
    axis = axis_of(chance, x.dim())
    x = torch.cat([x, x], axis)
    return Case([x], {"dim": axis}, functional.glu(x, axis))


@kernel_sample("GLUGrad")
def glu_grad(chance: random.Random) -> Case:
    dy, half = _floats(chance, 2, least=1)
    axis = axis_of(chance, dy.dim())
    x = torch.cat([half, half], axis)
    return Case([dy, x], {"dim": axis}, gradient(lambda a: functional.glu(a, axis), 0, dy, x))


def _along(op_type: str, call: Callable[..., Any]) -> None:
    @kernel_sample(op_type)
    def make(chance: random.Random) -> Case:
        (x,) = _floats(chance)
        axis = axis_of(chance, x.dim())
        return Case([x], {"axes": [axis]}, call(x, axis))


def _along_gradient(op_type: str, call: Callable[..., Any], order: str, name: str) -> None:
    @kernel_sample(op_type)
    def make(chance: random.Random) -> Case:
        x, dy = _floats(chance, 2)
        axis = axis_of(chance, x.dim())
        inputs = {"y": call(x, axis), "dy": dy}
        expected = gradient(lambda value: call(value, axis), 0, dy, x)
        return Case([inputs[argument] for argument in order.split()], {name: [axis]}, expected)


_along("SoftmaxV2", torch.softmax)
_along("LogSoftmaxV2", torch.log_softmax)
_along_gradient("SoftmaxGrad", torch.softmax, "y dy", "axes")
_along_gradient("LogSoftmaxGrad", torch.log_softmax, "dy y", "axis")


@kernel_sample("MseLoss")
def mse_loss(chance: random.Random) -> Case:
    predict, label = _floats(chance, 2)
    reduction = chance.choice(("none", "mean", "sum"))
    expected = functional.mse_loss(predict, label, reduction=reduction)
    return Case([predict, label], {"reduction": reduction}, expected)


@kernel_sample("MseLossGrad")
def mse_loss_grad(chance: random.Random) -> Case:
    predict, label = _floats(chance, 2)
    reduction = chance.choice(("none", "mean", "sum"))
    dout = plain(predict.shape if reduction == "none" else (), predict.dtype)
    expected = gradient(lambda a, b: functional.mse_loss(a, b, reduction=reduction), 0, dout, predict, label)
    return Case([predict, label, dout], {"reduction": reduction}, expected)


def _nll(chance: random.Random) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None, str, int]:
    rows, classes = chance.randint(1, 5), chance.randint(1, 5)
    x = plain([rows, classes], chance.choice(FLOATS))
    target = torch.randint(0, classes, [rows], dtype=chance.choice((torch.int32, torch.int64)))
    weight = torch.rand(classes).to(x.dtype) if chance.random() < 0.5 else None
    return x, target, weight, chance.choice(("none", "mean", "sum")), chance.choice((-100, 0))


@kernel_sample("NLLLoss")
def nll_loss(chance: random.Random) -> Case:
    x, target, weight, reduction, ignored = _nll(chance)
    loss = functional.nll_loss(x, target.long(), weight, ignore_index=ignored, reduction=reduction)
    counted = (torch.ones(x.size(1), dtype=x.dtype) if weight is None else weight)[target.long()]
    total = (counted * (target != ignored)).sum() if reduction != "none" else torch.zeros((), dtype=x.dtype)
    return Case([x, target, weight], {"reduction": reduction, "ignore_index": ignored}, (loss, total), bound=4)


@kernel_sample("NLLLossGrad")
def nll_loss_grad(chance: random.Random) -> Case:
    x, target, weight, reduction, ignored = _nll(chance)

    def call(log_probabilities: torch.Tensor) -> torch.Tensor:
        return functional.nll_loss(log_probabilities, target.long(), weight, ignore_index=ignored, reduction=reduction)

    dy = plain([x.size(0)] if reduction == "none" else (), x.dtype)
    counted = (torch.ones(x.size(1), dtype=x.dtype) if weight is None else weight)[target.long()]
    total = (counted * (target != ignored)).sum()
    attributes = {"reduction": reduction, "ignore_index": ignored}
    return Case([x, dy, target, weight, total], attributes, gradient(call, 0, dy, x), bound=4)


@kernel_sample("Mish")
def mish(chance: random.Random) -> Case:
    (x,) = _floats(chance)
    return Case([x], {}, functional.mish(x))


@kernel_sample("LogSigmoid")
def log_sigmoid(chance: random.Random) -> Case:
    (x,) = _floats(chance)
    return Case([x], {}, functional.logsigmoid(x))


@kernel_sample("LogSigmoidGrad")
def log_sigmoid_grad(chance: random.Random) -> Case:
    x, dy = _floats(chance, 2)
    return Case([dy, x], {}, gradient(functional.logsigmoid, 0, dy, x))
