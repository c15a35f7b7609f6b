"""The experts that a recipe chose, and what transformers computes with the same ones.

Two experts whose scores are a rounding apart are a tie: bfloat16 may take the one and float32 the other, and then
everything behind them differs. So the inputs that a recipe routed are kept with the experts it took. Routers of
transformers, given those inputs, must take those experts; the rest of the model goes on in float32 with its own values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


class OtherRouting(Exception):
    """What the recipe routed is not what transformers routes, by more than rounding."""


@dataclass(frozen=True)
class Routed:
    """The tokens that went into a layer of experts, and which experts each of them got."""

    inputs: Tensor
    experts: Tensor

    def of(self, start: int, end: int) -> Routed:
        """Those of one prompt."""
        return Routed(self.inputs[start:end], self.experts[start:end])


def routers(model: nn.Module) -> list[nn.Module]:
    """The routers of a model of transformers, in the order of its layers."""
    return [module for module in model.modules() if type(module).__name__.endswith("Router")]


@contextmanager
def routed_alike(model: nn.Module, layers: Sequence[Routed], bound: float) -> Iterator[None]:
    """Let ``model`` choose the experts of ``layers``; inputs further than ``bound`` from its own are an error."""
    found = routers(model)
    if len(found) != len(layers):
        raise OtherRouting(f"the recipe routed {len(layers)} times, transformers {len(found)}")
    hooks = [
        router.register_forward_pre_hook(_replacing(layer, bound)) for router, layer in zip(found, layers, strict=True)
    ]
    hooks += [router.register_forward_hook(_checking(layer)) for router, layer in zip(found, layers, strict=True)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _replacing(layer: Routed, bound: float) -> Any:
    def replace(_: nn.Module, given: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        own = given[0]
        inputs = layer.inputs.to(own.dtype)
        if inputs.numel() != own.numel():
            raise OtherRouting(f"the recipe routed {tuple(inputs.shape)}, transformers {tuple(own.shape)}")
        inputs = inputs.reshape(own.shape)
        off = ((inputs - own).abs().max() / own.abs().max()).item()
        if not off < bound:
            raise OtherRouting(f"what the recipe routed is off by {off:.3f} of the largest")
        return (inputs, *given[1:])

    return replace


def _checking(layer: Routed) -> Any:
    def check(_: nn.Module, __: Any, result: tuple[Tensor, ...]) -> None:
        chosen = next(each for each in result if not each.is_floating_point())
        if not torch.equal(chosen.long().sort(-1).values, layer.experts.long().sort(-1).values):
            raise OtherRouting("with the same inputs transformers takes other experts")

    return check
