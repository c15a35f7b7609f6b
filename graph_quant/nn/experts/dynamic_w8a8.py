"""Experts with int8 weights by channel and int8 activations by token, scaled at run time."""

from __future__ import annotations

import torch
from graph_quant.nn import schemes, weights
from graph_quant.nn.experts.base import QuantisedExperts, fits_one_kernel, scale_dtype
from graph_quant.nn.experts.products import BY_ROW, Routed, grouped_product, route
from graph_quant.nn.experts.source import float_experts
from graph_quant.nn.observe import Range, check_ranges
from torch import Tensor, nn


class DynamicW8A8Experts(QuantisedExperts):
    """Tokens are quantised on the way to their experts, and rows again between the products.

    Between the products stands npu_dequant_swiglu_quant. Where it does not serve (an activation other than SiLU, or
    gates and ups that are not a multiple of 64 or more than 10496 together) the first product gives half precision,
    which is gated and goes through npu_dynamic_quant.

    Buffers: ``gate_up_scale`` (experts, 2i) and ``down_scale`` (experts, k), float32, or bfloat16 where a product gives
    it; ``gate_up_smooth`` float32 (1, k) and ``down_smooth`` (experts, i), or None: what rows are multiplied with.
    """

    gate_up_smooth: Tensor | None
    down_smooth: Tensor | None

    @classmethod
    def from_float(
        cls,
        experts: nn.Module,
        gate_up_input: Range | None = None,
        down_input: Range | None = None,
        smooth: float | None = None,
    ) -> DynamicW8A8Experts:
        """Quantises ``experts``; with ``smooth``, SmoothQuant's alpha, both (experts, …) ranges have to be observed."""
        source = float_experts("DynamicW8A8Experts", experts)
        in_one = fits_one_kernel(source.act_fn, source.gate_up.size(1), "dynamic")
        gate_up, down = source.gate_up.float(), source.down.float()
        entering, inside = None, None
        if smooth is not None:
            seen, seen_inside = check_ranges("DynamicW8A8Experts", gate_up, down, gate_up_input, down_input)
            entering = weights.smoothing(seen.overall.magnitude, gate_up.abs().amax((0, 1)), smooth)
            inside = weights.smoothing(seen_inside.magnitude, down.abs().amax(1), smooth)
            # npu_dynamic_quant takes them in the dtype of its rows, npu_dequant_swiglu_quant in float32.
            inside = inside if in_one else weights.representable(inside, source.dtype)
            gate_up, down = gate_up / entering, down / inside.float().unsqueeze(1)
            entering = entering.unsqueeze(0)
        result_dtype = scale_dtype(source.dtype)
        first, first_scale = schemes.int8_columns(gate_up, torch.float32 if in_one else result_dtype)
        second, second_scale = schemes.int8_columns(down, result_dtype)
        return cls(
            source.act_fn,
            gate_up=first,
            gate_up_scale=first_scale,
            gate_up_smooth=entering,
            down=second,
            down_scale=second_scale,
            down_smooth=inside,
        )

    def route(self, hidden_states: Tensor, top_k_index: Tensor) -> Routed:
        """Quantises each token by its largest magnitude on the way."""
        return route(hidden_states, top_k_index, self.experts, BY_ROW, self.gate_up_smooth)

    def compute(self, routed: Routed, dtype: torch.dtype) -> Tensor:
        """Rows are quantised by their largest magnitude between the products."""
        between = self._in_one if fits_one_kernel(self.act_fn, self.gate_up.size(2), "dynamic") else self._in_steps
        rows, scales = between(routed, dtype)
        return grouped_product(rows, self.down, routed.counts, dtype, scale=self.down_scale, per_token_scale=scales)

    def _in_one(self, routed: Routed, _: torch.dtype) -> tuple[Tensor, Tensor]:
        rows, scales = torch.ops.npu.npu_dequant_swiglu_quant(
            grouped_product(routed.rows, self.gate_up, routed.counts, torch.int32),
            weight_scale=self.gate_up_scale,
            activation_scale=routed.scales,
            quant_scale=self.down_smooth,
            group_index=routed.counts,
            activate_left=True,
            quant_mode=1,
        )
        return rows, scales

    def _in_steps(self, routed: Routed, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        gate_up = grouped_product(
            routed.rows, self.gate_up, routed.counts, dtype, scale=self.gate_up_scale, per_token_scale=routed.scales
        )
        groups = None if self.down_smooth is None else routed.ends.to(torch.int32)
        rows, scales = torch.ops.npu.npu_dynamic_quant(
            self.gated(gate_up), smooth_scales=self.down_smooth, group_index=groups
        )
        return rows, scales

    def extra_repr(self) -> str:
        """What printing a model shows."""
        return f"{super().extra_repr()}, smooth={self.gate_up_smooth is not None}"
