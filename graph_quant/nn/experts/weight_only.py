"""Experts with weight-only quantisation: W8A16 and W4A16."""

from __future__ import annotations

from typing import ClassVar

import torch
from graph_quant.destination import INT4, INT8, Destination
from graph_quant.nn import schemes
from graph_quant.nn.experts.base import QuantisedExperts
from graph_quant.nn.experts.products import Routed, grouped_matmul, route
from graph_quant.nn.experts.source import float_experts
from torch import Tensor, nn
from typing_extensions import Self


class WeightOnlyExperts(QuantisedExperts):
    """Experts with integer weights and float activations. Scales are (experts, n) or (experts, groups, n)."""

    destination: ClassVar[Destination]

    @classmethod
    def from_float(cls, experts: nn.Module, group_size: int | None = None) -> Self:
        """Quantise experts.

        Args:
            experts: Float experts: transformers' own, or a ModuleList of gated MLPs.
            group_size: How many input channels share a scale; it must divide them, and be None for int8. None for one
                scale for each output channel.

        Returns:
            The quantised experts.

        Raises:
            TypeError: The experts are not supported, or their weights are neither float16 nor bfloat16.
            ValueError: The sizes do not fit the kernel, or ``group_size`` does not fit them.
        """
        source = float_experts(cls.__name__, experts)
        first, second = (cls._weight(weight, group_size) for weight in (source.gate_up, source.down))
        return cls(
            source.act_fn,
            gate_up=first.elements,
            gate_up_scale=first.scale,
            down=second.elements,
            down_scale=second.scale,
        )

    @classmethod
    def _weight(cls, weight: Tensor, group_size: int | None) -> schemes.WeightOnly:
        name, depth = cls.__name__, weight.size(-1)
        length = schemes.resolve_group_size(name, weight, group_size)
        if length is not None and cls.destination is INT8:
            raise ValueError(f"{name}: group_size must be None for int8 experts, got {length}")
        if length is not None and depth % length:
            raise ValueError(f"{name}: group_size must divide the input channels, got {length} and {depth}")
        return schemes.weight_only(name, weight, cls.destination, length)

    def route(self, hidden_states: Tensor, top_k_index: Tensor) -> Routed:
        """Copy tokens to the rows of their experts."""
        return route(hidden_states, top_k_index, self.experts)

    def compute(self, routed: Routed, dtype: torch.dtype) -> Tensor:
        """Compute both products with dequantised weights."""
        hidden = self._product(routed.rows, self.gate_up, self.gate_up_scale, routed.counts, dtype)
        return self._product(self.gated(hidden), self.down, self.down_scale, routed.counts, dtype)

    def _product(self, rows: Tensor, weight: Tensor, scale: Tensor, counts: Tensor, dtype: torch.dtype) -> Tensor:
        # The kernel for int8 weights requires an offset.
        offset = torch.zeros_like(scale) if self.destination is INT8 else None
        return grouped_matmul(rows, weight, counts, dtype, antiquant_scale=scale, antiquant_offset=offset)


class W8A16Experts(WeightOnlyExperts):
    """Experts with int8 weights, a scale for each output channel, and float activations.

    See ``from_float`` for its arguments.

    Examples:
        >>> W8A16Experts.from_float(block.experts)
    """

    destination = INT8


class W4A16Experts(WeightOnlyExperts):
    """Experts with int4 weights and float activations; k and i must be multiples of 8.

    See ``from_float`` for its arguments.

    Examples:
        >>> W4A16Experts.from_float(block.experts, group_size=32)
    """

    destination = INT4

    def extra_repr(self) -> str:
        """Return the text that ``print(model)`` shows."""
        pairs = (self.gate_up, self.gate_up_scale), (self.down, self.down_scale)
        sizes = [matrix.size(1) // (scale.size(1) if scale.dim() == 3 else 1) for matrix, scale in pairs]
        return f"{super().extra_repr()}, group_sizes={sizes}"
