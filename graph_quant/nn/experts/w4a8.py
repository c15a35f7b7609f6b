"""Experts with int4 weights and int8 activations by token, scaled at run time."""

from __future__ import annotations

import torch
from graph_quant.nn import schemes
from graph_quant.nn.experts.base import QuantisedExperts
from graph_quant.nn.experts.products import BY_ROW, Routed, grouped_product, route
from graph_quant.nn.experts.source import float_experts
from torch import Tensor, nn


class W4A8Experts(QuantisedExperts):
    """Tokens are quantised to int8 on the way to their experts, and gated rows again.

    k and i must be multiples of 64. Buffers: the scales are int64 (experts, groups, n), the bits of float32;
    ``gate_up_assist`` and ``down_assist``, float32 (experts, n), are ``8 * sum(weight * scale)``, which the kernel asks
    for in place of a bias. With one group, npu_grouped_matmul has a second kernel for many rows to an expert, which
    rounds otherwise.
    """

    gate_up_assist: Tensor
    down_assist: Tensor

    @classmethod
    def from_float(cls, experts: nn.Module, group_size: int | None = None) -> W4A8Experts:
        """Quantises ``experts``, with a scale for each output channel or for each ``group_size`` of its inputs."""
        source = float_experts("W4A8Experts", experts)
        first, second = (schemes.split("W4A8Experts", each, group_size) for each in (source.gate_up, source.down))
        return cls(
            source.act_fn,
            gate_up=first.elements,
            gate_up_scale=first.scale,
            gate_up_assist=first.assist,
            down=second.elements,
            down_scale=second.scale,
            down_assist=second.assist,
        )

    def route(self, hidden_states: Tensor, top_k_index: Tensor) -> Routed:
        """Quantises each token by its largest magnitude on the way."""
        return route(hidden_states, top_k_index, self.experts, BY_ROW)

    def compute(self, routed: Routed, dtype: torch.dtype) -> Tensor:
        """Rows are quantised by their largest magnitude between the products."""
        gate_up = grouped_product(
            routed.rows,
            self.gate_up,
            routed.counts,
            dtype,
            scale=self.gate_up_scale,
            bias=self.gate_up_assist,
            per_token_scale=routed.scales,
        )
        rows, scales = torch.ops.npu.npu_dynamic_quant(self.gated(gate_up))
        return grouped_product(
            rows,
            self.down,
            routed.counts,
            dtype,
            scale=self.down_scale,
            bias=self.down_assist,
            per_token_scale=scales,
        )

    def extra_repr(self) -> str:
        """What printing a model shows."""
        sizes = [matrix.size(1) // scale.size(1) for matrix, scale in self._pairs()]
        return f"{super().extra_repr()}, group_sizes={sizes}"

    def _pairs(self) -> tuple[tuple[Tensor, Tensor], ...]:
        return (self.gate_up, self.gate_up_scale), (self.down, self.down_scale)
