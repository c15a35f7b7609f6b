"""Calibration: records the ranges of the inputs of linears and experts while a model runs on samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from graph_quant.nn.experts.source import float_experts, is_experts
from torch import Tensor, nn

Filter = Callable[[nn.Module, str], bool]


@dataclass(frozen=True)
class Range:
    """The range of each input channel, as calibration observed it.

    Attributes:
        low: The minimum of each channel, float32 (k,), or (experts, k) for experts.
        high: The maximum, of the same shape.

    Examples:
        >>> Range(torch.tensor([-1.0]), torch.tensor([3.0])).magnitude
        tensor([3.])
    """

    low: Tensor
    high: Tensor

    @property
    def magnitude(self) -> Tensor:
        """The absmax of each channel."""
        return torch.maximum(self.low.abs(), self.high.abs())

    @property
    def overall(self) -> Range:
        """The range over all experts, (k,)."""
        return Range(self.low.amin(0), self.high.amax(0))

    def joined(self, other: Range) -> Range:
        """Return the union of two ranges.

        Args:
            other: A range of the same shape.

        Returns:
            The smallest range that contains both.
        """
        return Range(torch.minimum(self.low, other.low), torch.maximum(self.high, other.high))


@dataclass
class Observations:
    """Observed ranges by module name.

    Attributes:
        ranges: The range of a linear's input by the linear's name; for experts, those of ``<name>.gate_up`` and
            ``<name>.down``.

    Examples:
        >>> with observe(model) as seen:
        ...     model(samples)
        >>> seen.ranges["layers.0.mlp.up_proj"].low.shape
        torch.Size([4096])
    """

    ranges: dict[str, Range] = field(default_factory=dict)

    def add(self, name: str, seen: Range) -> None:
        """Extend the range of ``name``.

        Args:
            name: The name of a module's input.
            seen: The range to include.
        """
        known = self.ranges.get(name)
        self.ranges[name] = seen if known is None else known.joined(seen)

    def of(self, name: str, recipe: str) -> Range:
        """Return the range of ``name``.

        Args:
            name: The name of a module's input.
            recipe: The recipe that needs it, for the error message.

        Returns:
            The observed range.

        Raises:
            ValueError: ``name`` was not observed.
        """
        if name not in self.ranges:
            raise ValueError(f"{recipe}: {name} was not observed; run the model on samples under observe() first")
        return self.ranges[name]


@contextmanager
def observe(model: nn.Module, filter: Filter | None = None) -> Iterator[Observations]:  # noqa: A002
    """Record the input ranges of linears and experts while the block runs.

    Args:
        model: The model to calibrate, with its float modules.
        filter: ``filter(module, name)`` selects modules; all linears and experts if None.

    Yields:
        The observations, for ``quantize_``.

    Examples:
        >>> with torch.no_grad(), observe(model) as seen:
        ...     for batch in samples:
        ...         model(batch)
        >>> quantize_(model, StaticW8A8(), observations=seen)
    """
    seen = Observations()
    handles = []
    for name, module in model.named_modules():
        if filter is not None and not filter(module, name):
            continue
        if isinstance(module, nn.Linear):
            handles.append(module.register_forward_pre_hook(_linear_hook(seen, name)))
        elif is_experts(module):
            handles.append(module.register_forward_pre_hook(_experts_hook(seen, name)))
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


def range_of(x: Tensor) -> Range:
    """Return the range of each channel of ``x`` (…, k)."""
    rows = x.detach().float().reshape(-1, x.size(-1))
    return Range(rows.amin(0), rows.amax(0))


def _linear_hook(seen: Observations, name: str) -> Callable[[nn.Module, Any], None]:
    def hook(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        if inputs[0].numel():
            seen.add(name, range_of(inputs[0]))

    return hook


def _experts_hook(seen: Observations, name: str) -> Callable[[nn.Module, Any], None]:
    def hook(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        hidden, chosen = inputs[0].detach(), inputs[1]
        if not hidden.numel():
            return
        source = float_experts("observe", module)
        gate_up_inputs, down_inputs = [], []
        for expert, (gate_up, _) in enumerate(zip(source.gate_up, source.down, strict=True)):
            own = hidden[(chosen == expert).any(-1)]
            gate_up_inputs.append(own)
            gate, up = nn.functional.linear(own, gate_up).chunk(2, dim=-1)
            down_inputs.append(source.act_fn(gate) * up)
        seen.add(f"{name}.gate_up", _stack_ranges(gate_up_inputs))
        seen.add(f"{name}.down", _stack_ranges(down_inputs))

    return hook


def _stack_ranges(groups: list[Tensor]) -> Range:
    """Return the ranges of groups of rows; an empty group gets the empty range from infinity to minus infinity."""
    empty = torch.full((groups[0].size(-1),), torch.inf, device=groups[0].device)
    ranges = [range_of(group) if group.size(0) else Range(empty, -empty) for group in groups]
    return Range(torch.stack([r.low for r in ranges]), torch.stack([r.high for r in ranges]))


def check_ranges(
    module: str, gate_up: Tensor, down: Tensor, gate_up_input: Range | None, down_input: Range | None
) -> tuple[Range, Range]:
    """Return the input ranges of both products; an expert without rows gets the range over all experts."""
    checked = []
    for name, observed, weight in (("gate_up_input", gate_up_input, gate_up), ("down_input", down_input, down)):
        if observed is None:
            raise ValueError(f"{module}: {name} needs the observed range, got None")
        shape = [weight.size(0), weight.size(2)]
        if list(observed.low.shape) != shape:
            raise ValueError(
                f"{module}: {name} must have the shape (experts, k), {shape}, got {list(observed.low.shape)}"
            )
        unseen = observed.low > observed.high
        overall = observed.overall
        checked.append(
            Range(torch.where(unseen, overall.low, observed.low), torch.where(unseen, overall.high, observed.high))
        )
    return checked[0], checked[1]
