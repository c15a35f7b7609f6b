"""Recipes: which quantised module replaces which float module."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol

from graph_quant.narrow_floats import E2M1, E4M3
from graph_quant.nn.dynamic_w8a8 import DynamicW8A8Linear
from graph_quant.nn.experts.dynamic_w8a8 import DynamicW8A8Experts
from graph_quant.nn.experts.source import is_experts
from graph_quant.nn.experts.static_w8a8 import StaticW8A8Experts
from graph_quant.nn.experts.w4a8 import W4A8Experts
from graph_quant.nn.experts.weight_only import W4A16Experts, W8A16Experts
from graph_quant.nn.narrow_linears import BlockFP8Linear, HiF8Linear, MxLinear
from graph_quant.nn.observe import Observations, Range
from graph_quant.nn.static_w8a8 import StaticW8A8Linear
from graph_quant.nn.w4a4 import W4A4Linear
from graph_quant.nn.w4a8 import W4A8Linear
from graph_quant.nn.weight_only import W4A16Linear, W8A16Linear
from torch import nn


class Recipe(Protocol):
    """The interface of a recipe for ``quantize_``.

    Examples:
        >>> class OnlySmall:
        ...     def applies(self, module):
        ...         return isinstance(module, nn.Linear) and module.in_features <= 4096
        ...
        ...     def quantised(self, module, name, seen):
        ...         return DynamicW8A8Linear.from_float(module)
        >>> quantize_(model, OnlySmall())
    """

    def applies(self, module: nn.Module) -> bool:
        """Return whether this recipe can replace ``module``.

        Args:
            module: A module of the model.

        Returns:
            True if ``quantised`` accepts it.
        """

    def quantised(self, module: nn.Module, name: str, seen: Observations) -> nn.Module:
        """Return the replacement of a module.

        Args:
            module: The float module.
            name: Its name in the model.
            seen: The observations; empty if there are none.

        Returns:
            The quantised module.

        Raises:
            ValueError: The sizes do not fit, or a needed observation is missing.
        """


def _check_strength(recipe: str, smooth: float | None) -> None:
    if smooth is not None and not 0 <= smooth <= 1:
        raise ValueError(f"{recipe}: smooth must lie in [0, 1], got {smooth}")


def _check_group(recipe: str, group_size: int | None) -> None:
    if group_size is not None and group_size < 1:
        raise ValueError(f"{recipe}: group_size must be None or positive, got {group_size}")


class _Recipe(ABC):
    """Replaces linears and experts."""

    def applies(self, module: nn.Module) -> bool:
        return isinstance(module, nn.Linear) or is_experts(module)

    def quantised(self, module: nn.Module, name: str, seen: Observations) -> nn.Module:
        if isinstance(module, nn.Linear):
            return self._linear(module, name, seen)
        return self._experts(module, name, seen)

    @abstractmethod
    def _linear(self, linear: nn.Linear, name: str, seen: Observations) -> nn.Module: ...

    @abstractmethod
    def _experts(self, experts: nn.Module, name: str, seen: Observations) -> nn.Module: ...

    def _ranges(self, name: str, seen: Observations) -> tuple[Range, Range]:
        recipe = type(self).__name__
        return seen.of(f"{name}.gate_up", recipe), seen.of(f"{name}.down", recipe)


@dataclass(frozen=True)
class DynamicW8A8(_Recipe):
    """int8 weights by channel, int8 activations by token with scales computed at run time.

    Args:
        smooth: SmoothQuant's alpha in [0, 1]; needs observations. None for no smoothing.

    Raises:
        ValueError: ``smooth`` lies outside [0, 1].

    Examples:
        >>> quantize_(model, DynamicW8A8())
    """

    smooth: float | None = None

    def __post_init__(self) -> None:
        _check_strength("DynamicW8A8", self.smooth)

    def _linear(self, linear: nn.Linear, name: str, seen: Observations) -> nn.Module:
        observed = None if self.smooth is None else seen.of(name, "DynamicW8A8")
        return DynamicW8A8Linear.from_float(linear, observed, self.smooth)

    def _experts(self, experts: nn.Module, name: str, seen: Observations) -> nn.Module:
        if self.smooth is None:
            return DynamicW8A8Experts.from_float(experts)
        return DynamicW8A8Experts.from_float(experts, *self._ranges(name, seen), self.smooth)


@dataclass(frozen=True)
class StaticW8A8(_Recipe):
    """int8 weights by channel, int8 activations with one calibrated scale and zero point. Needs observations.

    Args:
        smooth: SmoothQuant's alpha in [0, 1]. None for no smoothing.
        symmetric: Whether activations have no zero point.

    Raises:
        ValueError: ``smooth`` lies outside [0, 1].

    Examples:
        >>> quantize_(model, StaticW8A8(smooth=0.5), observations=seen)
    """

    smooth: float | None = None
    symmetric: bool = False

    def __post_init__(self) -> None:
        _check_strength("StaticW8A8", self.smooth)

    def _linear(self, linear: nn.Linear, name: str, seen: Observations) -> nn.Module:
        return StaticW8A8Linear.from_float(linear, seen.of(name, "StaticW8A8"), self.smooth, self.symmetric)

    def _experts(self, experts: nn.Module, name: str, seen: Observations) -> nn.Module:
        return StaticW8A8Experts.from_float(experts, *self._ranges(name, seen), self.smooth, self.symmetric)


@dataclass(frozen=True)
class W4A8(_Recipe):
    """int4 weights by group, int8 activations by token with scales computed at run time.

    Args:
        group_size: How many input channels share a scale; it must divide them. None for one scale for each channel.

    Raises:
        ValueError: ``group_size`` is not positive.

    Examples:
        >>> quantize_(model, W4A8(group_size=128))
    """

    group_size: int | None = 256

    def __post_init__(self) -> None:
        _check_group("W4A8", self.group_size)

    def _linear(self, linear: nn.Linear, name: str, seen: Observations) -> nn.Module:  # noqa: ARG002
        return W4A8Linear.from_float(linear, self.group_size)

    def _experts(self, experts: nn.Module, name: str, seen: Observations) -> nn.Module:  # noqa: ARG002
        return W4A8Experts.from_float(experts, self.group_size)


@dataclass(frozen=True)
class W8A16(_Recipe):
    """int8 weights by channel or group, float activations.

    Args:
        group_size: How many input channels of a linear share a scale, a multiple of 32. None for one scale for each
            channel, which experts need.

    Raises:
        ValueError: ``group_size`` is not positive.

    Examples:
        >>> quantize_(model, W8A16())
    """

    group_size: int | None = None

    def __post_init__(self) -> None:
        _check_group("W8A16", self.group_size)

    def _linear(self, linear: nn.Linear, name: str, seen: Observations) -> nn.Module:  # noqa: ARG002
        return W8A16Linear.from_float(linear, self.group_size)

    def _experts(self, experts: nn.Module, name: str, seen: Observations) -> nn.Module:  # noqa: ARG002
        return W8A16Experts.from_float(experts, self.group_size)


@dataclass(frozen=True)
class W4A16(_Recipe):
    """int4 weights by group, float activations.

    Args:
        group_size: How many input channels share a scale, a multiple of 32; in experts it must divide the input
            channels. None for one scale for each channel.

    Raises:
        ValueError: ``group_size`` is not positive.

    Examples:
        >>> quantize_(model, W4A16(group_size=64))
    """

    group_size: int | None = 128

    def __post_init__(self) -> None:
        _check_group("W4A16", self.group_size)

    def _linear(self, linear: nn.Linear, name: str, seen: Observations) -> nn.Module:  # noqa: ARG002
        return W4A16Linear.from_float(linear, self.group_size)

    def _experts(self, experts: nn.Module, name: str, seen: Observations) -> nn.Module:  # noqa: ARG002
        return W4A16Experts.from_float(experts, self.group_size)


class _LinearsOnly:
    """Replaces linears."""

    def applies(self, module: nn.Module) -> bool:
        return isinstance(module, nn.Linear)


@dataclass(frozen=True)
class W4A4(_LinearsOnly):
    """int4 weights by channel, int4 activations by token; for linears whose in_features are a multiple of 8.

    Examples:
        >>> quantize_(model, W4A4(), lambda module, name: "mlp" in name)
    """

    def quantised(self, module: nn.Module, name: str, seen: Observations) -> nn.Module:  # noqa: ARG002
        assert isinstance(module, nn.Linear)
        return W4A4Linear.from_float(module)


@dataclass(frozen=True)
class MXFP8(_LinearsOnly):
    """float8_e4m3fn weights and activations in blocks of 32 that share a power of two. Needs Ascend 950.

    Examples:
        >>> quantize_(model, MXFP8())
    """

    def quantised(self, module: nn.Module, name: str, seen: Observations) -> nn.Module:  # noqa: ARG002
        assert isinstance(module, nn.Linear)
        return MxLinear.from_float(module)


@dataclass(frozen=True)
class MXFP4(_LinearsOnly):
    """float4_e2m1 weights in blocks of 32 that share a power of two. Needs Ascend 950.

    Args:
        float8_activations: Whether activations are float8_e4m3fn (W4A8), and not float4_e2m1 (W4A4).

    Examples:
        >>> quantize_(model, MXFP4(float8_activations=True))
    """

    float8_activations: bool = False

    def quantised(self, module: nn.Module, name: str, seen: Observations) -> nn.Module:  # noqa: ARG002
        assert isinstance(module, nn.Linear)
        return MxLinear.from_float(module, E2M1, E4M3 if self.float8_activations else E2M1)


@dataclass(frozen=True)
class BlockFP8(_LinearsOnly):
    """float8_e4m3fn weights in blocks of 128 by 128, activations in 128 columns of a row. Needs Ascend 950.

    Examples:
        >>> quantize_(model, BlockFP8())
    """

    def quantised(self, module: nn.Module, name: str, seen: Observations) -> nn.Module:  # noqa: ARG002
        assert isinstance(module, nn.Linear)
        return BlockFP8Linear.from_float(module)


@dataclass(frozen=True)
class HiF8(_LinearsOnly):
    """HiFloat8 weights by channel, HiFloat8 activations by token with scales computed at run time. Needs Ascend 950.

    Examples:
        >>> quantize_(model, HiF8())
    """

    def quantised(self, module: nn.Module, name: str, seen: Observations) -> nn.Module:  # noqa: ARG002
        assert isinstance(module, nn.Linear)
        return HiF8Linear.from_float(module)
