"""Experts with int4 weights and int8 activations by token with scales computed at run time."""

from __future__ import annotations

import torch
from graph_quant.nn import schemes
from graph_quant.nn.experts.base import QuantisedExperts
from graph_quant.nn.experts.products import BY_ROW, Routed, grouped_matmul, route
from graph_quant.nn.experts.source import float_experts
from torch import Tensor, nn


class W4A8Experts(QuantisedExperts):
    """Experts in W4A8: routing quantises the tokens to int8, and gated rows are quantised again.

    k and i must be multiples of 64. With one group, npu_grouped_matmul has a second kernel for many rows in an expert,
    which rounds differently.

    Attributes:
        gate_up_scale: int64 (experts, groups, 2i), the bits of float32.
        down_scale: int64 (experts, groups, k), the bits of float32.
        gate_up_assist: float32 (experts, 2i), ``8 * sum(weight * scale)``, which the kernel takes as its bias.
        down_assist: float32 (experts, k), the same of ``down``.

    Examples:
        >>> W4A8Experts.from_float(block.experts, group_size=64)
    """

    gate_up_assist: Tensor
    down_assist: Tensor

    @classmethod
    def from_float(cls, experts: nn.Module, group_size: int | None = None) -> W4A8Experts:
        """Quantise experts.

        Args:
            experts: Float experts: transformers' own, or a ModuleList of gated MLPs.
            group_size: How many input channels share a scale; it must divide them. None for one scale for each output
                channel.

        Returns:
            The quantised experts.

        Raises:
            TypeError: The experts are not supported, or their weights are neither float16 nor bfloat16.
            ValueError: The sizes do not fit the kernel, or ``group_size`` does not fit them.
        """
        source = float_experts("W4A8Experts", experts)
        first, second = (schemes.split("W4A8Experts", weight, group_size) for weight in (source.gate_up, source.down))
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
        """Quantise each token by its absmax, and copy it to the rows of its experts."""
        return route(hidden_states, top_k_index, self.experts, BY_ROW)

    def compute(self, routed: Routed, dtype: torch.dtype) -> Tensor:
        """Compute both products; gated rows are quantised by their absmax."""
        gate_up = grouped_matmul(
            routed.rows,
            self.gate_up,
            routed.counts,
            dtype,
            scale=self.gate_up_scale,
            bias=self.gate_up_assist,
            per_token_scale=routed.scales,
        )
        rows, scales = torch.ops.npu.npu_dynamic_quant(self.gated(gate_up))
        return grouped_matmul(
            rows,
            self.down,
            routed.counts,
            dtype,
            scale=self.down_scale,
            bias=self.down_assist,
            per_token_scale=scales,
        )

    def extra_repr(self) -> str:
        """Return the text that ``print(model)`` shows."""
        sizes = [matrix.size(1) // scale.size(1) for matrix, scale in self._pairs()]
        return f"{super().extra_repr()}, group_sizes={sizes}"

    def _pairs(self) -> tuple[tuple[Tensor, Tensor], ...]:
        return (self.gate_up, self.gate_up_scale), (self.down, self.down_scale)
