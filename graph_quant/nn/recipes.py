"""Recipes: what replaces which module, and how."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol

from graph_quant.nn.dynamic_w8a8 import DynamicW8A8Linear
from graph_quant.nn.experts import GroupedW8A8Experts
from graph_quant.nn.observe import Observations
from graph_quant.nn.routing import is_experts
from graph_quant.nn.static_w8a8 import StaticW8A8Linear
from graph_quant.nn.w4a4 import W4A4Linear
from torch import nn


class Recipe(Protocol):
    """What ``quantize_`` asks of a recipe."""

    def applies(self, module: nn.Module) -> bool:
        """Whether this recipe can replace ``module``."""

    def quantised(self, module: nn.Module, name: str, seen: Observations) -> nn.Module:
        """The replacement of the module called ``name``."""


def _check_strength(recipe: str, smooth: float | None) -> None:
    if smooth is not None and not 0 <= smooth <= 1:
        raise ValueError(f"{recipe}: smooth must lie in [0, 1], got {smooth}")


class _LinearRecipe(ABC):
    def applies(self, module: nn.Module) -> bool:
        return isinstance(module, nn.Linear)

    def quantised(self, module: nn.Module, name: str, seen: Observations) -> nn.Module:
        assert isinstance(module, nn.Linear)
        return self._linear(module, name, seen)

    @abstractmethod
    def _linear(self, linear: nn.Linear, name: str, seen: Observations) -> nn.Module: ...


@dataclass(frozen=True)
class DynamicW8A8(_LinearRecipe):
    """int8 weights by channel and activations by token. Needs observations only for ``smooth``."""

    smooth: float | None = None

    def __post_init__(self) -> None:
        _check_strength("DynamicW8A8", self.smooth)

    def _linear(self, linear: nn.Linear, name: str, seen: Observations) -> nn.Module:
        observed = None if self.smooth is None else seen.of(name, "DynamicW8A8")
        return DynamicW8A8Linear.from_float(linear, observed, self.smooth)


@dataclass(frozen=True)
class StaticW8A8(_LinearRecipe):
    """int8 weights by channel and one calibrated scale for the activations, with a zero point unless symmetric."""

    smooth: float | None = None
    symmetric: bool = False

    def __post_init__(self) -> None:
        _check_strength("StaticW8A8", self.smooth)

    def _linear(self, linear: nn.Linear, name: str, seen: Observations) -> nn.Module:
        return StaticW8A8Linear.from_float(linear, seen.of(name, "StaticW8A8"), self.smooth, self.symmetric)


@dataclass(frozen=True)
class W4A4(_LinearRecipe):
    """int4 weights by channel and activations by token. in_features must be a multiple of 8."""

    def _linear(self, linear: nn.Linear, name: str, seen: Observations) -> nn.Module:  # noqa: ARG002
        return W4A4Linear.from_float(linear)


@dataclass(frozen=True)
class GroupedW8A8:
    """Experts in int8 with a calibrated scale for each expert, and for each of its input channels with ``smooth``."""

    smooth: float | None = None

    def __post_init__(self) -> None:
        _check_strength("GroupedW8A8", self.smooth)

    def applies(self, module: nn.Module) -> bool:
        return is_experts(module)

    def quantised(self, module: nn.Module, name: str, seen: Observations) -> nn.Module:
        entering, inside = (seen.of(f"{name}.{part}", "GroupedW8A8") for part in ("gate_up", "down"))
        return GroupedW8A8Experts.from_float(module, entering, inside, self.smooth)
