"""Runs transformers with the experts that a recipe chose.

If the scores of two experts differ by a rounding error, bfloat16 may choose one and float32 the other, and all later
layers differ. So the router inputs of a recipe are recorded with the chosen experts. transformers' routers, with those
inputs, must choose the same experts; the rest of the model continues in float32 with its own values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


class RoutingMismatchError(Exception):
    """The recipe's routing differs from transformers' by more than rounding."""


@dataclass(frozen=True)
class Routed:
    """The tokens that entered a layer of experts, and their experts."""

    inputs: Tensor
    experts: Tensor

    def of(self, start: int, end: int) -> Routed:
        """Return the part of one prompt."""
        return Routed(self.inputs[start:end], self.experts[start:end])


def routers(model: nn.Module) -> list[nn.Module]:
    """Return the routers of a transformers model, in the order of its layers."""
    return [module for module in model.modules() if type(module).__name__.endswith("Router")]


@contextmanager
def same_routing(model: nn.Module, layers: Sequence[Routed], bound: float) -> Iterator[None]:
    """Make ``model`` choose the experts of ``layers``; raise if their inputs differ by more than ``bound``."""
    model_routers = routers(model)
    if len(model_routers) != len(layers):
        raise RoutingMismatchError(f"the recipe routed {len(layers)} times, transformers {len(model_routers)}")
    hooks = [
        router.register_forward_pre_hook(_replacing(layer, bound))
        for router, layer in zip(model_routers, layers, strict=True)
    ]
    hooks += [
        router.register_forward_hook(_checking(layer)) for router, layer in zip(model_routers, layers, strict=True)
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _replacing(layer: Routed, bound: float) -> Any:
    def replace(_: nn.Module, arguments: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        own = arguments[0]
        inputs = layer.inputs.to(own.dtype)
        if inputs.numel() != own.numel():
            raise RoutingMismatchError(f"the recipe routed {tuple(inputs.shape)}, transformers {tuple(own.shape)}")
        inputs = inputs.reshape(own.shape)
        off = ((inputs - own).abs().max() / own.abs().max()).item()
        if not off < bound:
            raise RoutingMismatchError(f"what the recipe routed is off by {off:.3f} of the largest")
        return (inputs, *arguments[1:])

    return replace


def _checking(layer: Routed) -> Any:
    def check(_: nn.Module, __: Any, result: tuple[Tensor, ...]) -> None:
        chosen = next(tensor for tensor in result if not tensor.is_floating_point())
        if not torch.equal(chosen.long().sort(-1).values, layer.experts.long().sort(-1).values):
            raise RoutingMismatchError("with the same inputs transformers takes other experts")

    return check
