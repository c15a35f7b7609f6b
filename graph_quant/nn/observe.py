"""Calibration: the range of what goes into linears and experts while a model runs on sample inputs."""

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
    """The lowest and highest value of each channel, float32 (k,), or (experts, k) for experts."""

    low: Tensor
    high: Tensor

    @property
    def magnitude(self) -> Tensor:
        """The largest magnitude of each channel."""
        return torch.maximum(self.low.abs(), self.high.abs())

    @property
    def overall(self) -> Range:
        """The range of all experts together, (k,)."""
        return Range(self.low.amin(0), self.high.amax(0))

    def joined(self, other: Range) -> Range:
        """The range that covers both."""
        return Range(torch.minimum(self.low, other.low), torch.maximum(self.high, other.high))


@dataclass
class Observations:
    """Ranges by name: of a linear's input, and of an experts module's two inputs, ``….gate_up`` and ``….down``."""

    ranges: dict[str, Range] = field(default_factory=dict)

    def add(self, name: str, seen: Range) -> None:
        """Widens what is known of ``name``."""
        known = self.ranges.get(name)
        self.ranges[name] = seen if known is None else known.joined(seen)

    def of(self, name: str, recipe: str) -> Range:
        """The range of ``name``, which ``recipe`` needs."""
        if name not in self.ranges:
            raise ValueError(f"{recipe}: {name} was not observed; run the model on samples under observe() first")
        return self.ranges[name]


@contextmanager
def observe(model: nn.Module, filter: Filter | None = None) -> Iterator[Observations]:  # noqa: A002
    """Watches the linears and experts of ``model`` that ``filter`` accepts, all by default, while the block runs."""
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
    """The range of each channel of x (…, k)."""
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
        entering, inside = [], []
        for expert, (gate_up, _) in enumerate(zip(source.gate_up, source.down, strict=True)):
            own = hidden[(chosen == expert).any(-1)]
            entering.append(own)
            gate, up = nn.functional.linear(own, gate_up).chunk(2, dim=-1)
            inside.append(source.act_fn(gate) * up)
        seen.add(f"{name}.gate_up", _by_expert(entering))
        seen.add(f"{name}.down", _by_expert(inside))

    return hook


def _by_expert(groups: list[Tensor]) -> Range:
    """The range of each group; where no row came to one it is empty, from infinity to minus infinity."""
    empty = torch.full((groups[0].size(-1),), torch.inf, device=groups[0].device)
    ranges = [range_of(group) if group.size(0) else Range(empty, -empty) for group in groups]
    return Range(torch.stack([each.low for each in ranges]), torch.stack([each.high for each in ranges]))


def check_ranges(
    module: str, gate_up: Tensor, down: Tensor, gate_up_input: Range | None, down_input: Range | None
) -> tuple[Range, Range]:
    """The ranges of what enters the two linears of experts; an expert that nothing came to gets the range of all."""
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
