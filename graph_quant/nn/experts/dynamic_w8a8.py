"""Experts with int8 weights by channel and int8 activations by token with scales computed at run time."""

from __future__ import annotations

import torch
from graph_quant.nn import schemes, weights
from graph_quant.nn.experts.base import QuantisedExperts, fits_fused_swiglu, scale_dtype
from graph_quant.nn.experts.products import BY_ROW, Routed, grouped_matmul, route
from graph_quant.nn.experts.source import float_experts
from graph_quant.nn.observe import Range, check_ranges
from torch import Tensor, nn


class DynamicW8A8Experts(QuantisedExperts):
    """Experts in W8A8: routing quantises the tokens, and gated rows are quantised between the products.

    npu_dequant_swiglu_quant gates and quantises. If it does not support the experts (an activation other than SiLU, or
    gates and ups that are not a multiple of 64 or more than 10496 together), the first product returns half precision,
    which is gated and quantised by npu_dynamic_quant.

    Attributes:
        gate_up_scale: (experts, 2i), float32, or bfloat16 for products in bfloat16.
        down_scale: (experts, k), of the same dtypes.
        gate_up_smooth: float32 (1, k), by which tokens are multiplied before they are quantised, or None.
        down_smooth: (experts, i), by which gated rows are multiplied, or None.

    Examples:
        >>> DynamicW8A8Experts.from_float(block.experts)
        DynamicW8A8Experts(experts=8, hidden=64, inside=96, smooth=False)
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
        """Quantise experts.

        Args:
            experts: Float experts: transformers' own, or a ModuleList of gated MLPs.
            gate_up_input: The range of the tokens, (experts, k); needed for ``smooth``.
            down_input: The range of the gated rows, (experts, i); needed for ``smooth``.
            smooth: SmoothQuant's alpha, or None.

        Returns:
            The quantised experts.

        Raises:
            TypeError: The experts are not supported, or their weights are neither float16 nor bfloat16.
            ValueError: A needed range is missing or has another shape.
        """
        source = float_experts("DynamicW8A8Experts", experts)
        is_fused = fits_fused_swiglu(source.act_fn, source.gate_up.size(1), "dynamic")
        gate_up, down = source.gate_up.float(), source.down.float()
        gate_up_smoothing, down_smoothing = None, None
        if smooth is not None:
            gate_up_range, down_range = check_ranges("DynamicW8A8Experts", gate_up, down, gate_up_input, down_input)
            gate_up_smoothing = weights.smoothing(gate_up_range.overall.magnitude, gate_up.abs().amax((0, 1)), smooth)
            down_smoothing = weights.smoothing(down_range.magnitude, down.abs().amax(1), smooth)
            # npu_dynamic_quant takes them in the dtype of its rows, npu_dequant_swiglu_quant in float32.
            down_smoothing = down_smoothing if is_fused else weights.round_to_dtype(down_smoothing, source.dtype)
            gate_up, down = gate_up / gate_up_smoothing, down / down_smoothing.float().unsqueeze(1)
            gate_up_smoothing = gate_up_smoothing.unsqueeze(0)
        result_dtype = scale_dtype(source.dtype)
        first, first_scale = schemes.int8_columns(gate_up, torch.float32 if is_fused else result_dtype)
        second, second_scale = schemes.int8_columns(down, result_dtype)
        return cls(
            source.act_fn,
            gate_up=first,
            gate_up_scale=first_scale,
            gate_up_smooth=gate_up_smoothing,
            down=second,
            down_scale=second_scale,
            down_smooth=down_smoothing,
        )

    def route(self, hidden_states: Tensor, top_k_index: Tensor) -> Routed:
        """Quantise each token by its absmax, and copy it to the rows of its experts."""
        return route(hidden_states, top_k_index, self.experts, BY_ROW, self.gate_up_smooth)

    def compute(self, routed: Routed, dtype: torch.dtype) -> Tensor:
        """Compute both products; gated rows are quantised by their absmax."""
        between = (
            self._gate_fused if fits_fused_swiglu(self.act_fn, self.gate_up.size(2), "dynamic") else self._gate_unfused
        )
        rows, scales = between(routed, dtype)
        return grouped_matmul(rows, self.down, routed.counts, dtype, scale=self.down_scale, per_token_scale=scales)

    def _gate_fused(self, routed: Routed, _: torch.dtype) -> tuple[Tensor, Tensor]:
        rows, scales = torch.ops.npu.npu_dequant_swiglu_quant(
            grouped_matmul(routed.rows, self.gate_up, routed.counts, torch.int32),
            weight_scale=self.gate_up_scale,
            activation_scale=routed.scales,
            quant_scale=self.down_smooth,
            group_index=routed.counts,
            activate_left=True,
            quant_mode=1,
        )
        return rows, scales

    def _gate_unfused(self, routed: Routed, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        gate_up = grouped_matmul(
            routed.rows, self.gate_up, routed.counts, dtype, scale=self.gate_up_scale, per_token_scale=routed.scales
        )
        groups = None if self.down_smooth is None else routed.ends.to(torch.int32)
        rows, scales = torch.ops.npu.npu_dynamic_quant(
            self.gated(gate_up), smooth_scales=self.down_smooth, group_index=groups
        )
        return rows, scales

    def extra_repr(self) -> str:
        """Return the text that ``print(model)`` shows."""
        return f"{super().extra_repr()}, smooth={self.gate_up_smooth is not None}"
