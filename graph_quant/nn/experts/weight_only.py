"""Experts with integer weights that are restored for each product; activations stay as they are: W8A16 and W4A16."""

from __future__ import annotations

from typing import ClassVar

import torch
from graph_quant.destination import INT4, INT8, Destination
from graph_quant.nn import schemes
from graph_quant.nn.experts.base import QuantisedExperts
from graph_quant.nn.experts.products import Routed, grouped_product, route
from graph_quant.nn.experts.source import float_experts
from torch import Tensor, nn
from typing_extensions import Self


class WeightOnlyExperts(QuantisedExperts):
    """Buffers: the scales are in the dtype of the tokens, (experts, n), or (experts, groups, n)."""

    destination: ClassVar[Destination]

    @classmethod
    def from_float(cls, experts: nn.Module, group_size: int | None = None) -> Self:
        """Quantises ``experts``, with a scale for each output channel or, in int4, for each ``group_size`` inputs."""
        source = float_experts(cls.__name__, experts)
        first, second = (cls._weight(each, group_size) for each in (source.gate_up, source.down))
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
        length = schemes.stretch_length(name, weight, group_size)
        if length is not None and cls.destination is INT8:
            raise ValueError(f"{name}: group_size must be None for int8 experts, got {length}")
        if length is not None and depth % length:
            raise ValueError(f"{name}: group_size must divide the input channels, got {length} and {depth}")
        return schemes.weight_only(name, weight, cls.destination, length)

    def route(self, hidden_states: Tensor, top_k_index: Tensor) -> Routed:
        """Copies tokens as they are."""
        return route(hidden_states, top_k_index, self.experts)

    def compute(self, routed: Routed, dtype: torch.dtype) -> Tensor:
        """Weights are restored for both products."""
        hidden = self._product(routed.rows, self.gate_up, self.gate_up_scale, routed.counts, dtype)
        return self._product(self.gated(hidden), self.down, self.down_scale, routed.counts, dtype)

    def _product(self, rows: Tensor, weight: Tensor, scale: Tensor, counts: Tensor, dtype: torch.dtype) -> Tensor:
        # The kernel of int8 weights asks for an offset.
        offset = torch.zeros_like(scale) if self.destination is INT8 else None
        return grouped_product(rows, weight, counts, dtype, antiquant_scale=scale, antiquant_offset=offset)


class W8A16Experts(WeightOnlyExperts):
    """The weights are int8, with a scale for each output channel."""

    destination = INT8


class W4A16Experts(WeightOnlyExperts):
    """The weights are int4: k and i must be multiples of 8."""

    destination = INT4

    def extra_repr(self) -> str:
        """What printing a model shows."""
        pairs = (self.gate_up, self.gate_up_scale), (self.down, self.down_scale)
        sizes = [matrix.size(1) // (scale.size(1) if scale.dim() == 3 else 1) for matrix, scale in pairs]
        return f"{super().extra_repr()}, group_sizes={sizes}"
