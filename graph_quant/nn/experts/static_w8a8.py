"""Experts with int8 weights by channel and int8 activations with calibrated scales."""

from __future__ import annotations

import torch
from graph_quant.destination import INT8, INT32
from graph_quant.nn import weights
from graph_quant.nn.experts.base import QuantisedExperts, fits_fused_swiglu, scale_dtype
from graph_quant.nn.experts.products import Routed, grouped_matmul, route
from graph_quant.nn.experts.source import float_experts
from graph_quant.nn.observe import Range, check_ranges
from graph_quant.nn.static_w8a8 import activation_step
from torch import Tensor, nn


class StaticW8A8Experts(QuantisedExperts):
    """Experts in W8A8 with calibrated scales: tokens are quantised once, then copied to their experts.

    Gated rows are quantised symmetrically with a scale for each expert, or with smoothing for each of its channels.
    npu_dequant_swiglu_quant gates and quantises. If it does not support the experts (an activation other than SiLU, or
    gates and ups that are not a multiple of 64 or more than 9472 together), the first product returns half precision,
    which is gated and quantised by npu_group_quant.

    Attributes:
        multiplier: The inverse scale of the tokens, (1,) or with smoothing (k,), in their dtype.
        zero_point: Their zero point, shaped like ``multiplier``.
        gate_up_bias: int32 (experts, 2i), which subtracts the zero point's contribution.
        gate_up_scale: (experts, 2i), float32, or bfloat16 for products in bfloat16.
        down_scale: (experts, k), of the same dtypes.
        down_step: float32 (experts,) or (experts, i), by which gated rows are divided; without the fused operator
            (experts, i) in the dtype of the tokens, by which they are multiplied.

    Examples:
        >>> with observe(model) as seen:
        ...     model(samples)
        >>> StaticW8A8Experts.from_float(model.experts, seen.ranges["experts.gate_up"], seen.ranges["experts.down"])
    """

    multiplier: Tensor
    zero_point: Tensor
    gate_up_bias: Tensor
    down_step: Tensor

    @classmethod
    def from_float(
        cls,
        experts: nn.Module,
        gate_up_input: Range | None,
        down_input: Range | None,
        smooth: float | None = None,
        symmetric: bool = False,
    ) -> StaticW8A8Experts:
        """Quantise experts for inputs of the observed ranges.

        Args:
            experts: Float experts: transformers' own, or a ModuleList of gated MLPs.
            gate_up_input: The range of the tokens, (experts, k).
            down_input: The range of the gated rows, (experts, i).
            smooth: SmoothQuant's alpha, or None.
            symmetric: Whether the tokens have no zero point.

        Returns:
            The quantised experts.

        Raises:
            TypeError: The experts are not supported, or their weights are neither float16 nor bfloat16.
            ValueError: A range is missing or has another shape.
        """
        source = float_experts("StaticW8A8Experts", experts)
        is_fused = fits_fused_swiglu(source.act_fn, source.gate_up.size(1), "static")
        gate_up, down = source.gate_up.float(), source.down.float()
        gate_up_range, down_range = check_ranges("StaticW8A8Experts", gate_up, down, gate_up_input, down_input)
        gate_up_smoothing = torch.ones(1, device=gate_up.device)
        down_smoothing = torch.ones_like(down_range.magnitude)
        if smooth is not None:
            gate_up_smoothing = weights.smoothing(gate_up_range.overall.magnitude, gate_up.abs().amax((0, 1)), smooth)
            down_smoothing = weights.smoothing(down_range.magnitude, down.abs().amax(1), smooth)
        step, zero_point = activation_step(gate_up_range.overall, gate_up_smoothing, symmetric)
        # Rounded to the dtype of the tokens for the kernel; the weights are divided by the rounded value.
        multiplier = (gate_up_smoothing / step).clamp(max=torch.finfo(source.dtype).max).to(source.dtype)
        first, first_scale = _columns(gate_up / (multiplier.float() * step), step, source.dtype, is_fused)
        offset = zero_point * first.sum(1, dtype=torch.float64)
        down_step = _steps(down_range.magnitude * down_smoothing)
        if is_fused:
            stored = down_step.squeeze(1) if smooth is None else down_step / down_smoothing
            rescale = torch.ones_like(down_smoothing) if smooth is None else down_step / stored
        else:
            stored = (down_smoothing / down_step).clamp(max=torch.finfo(source.dtype).max).to(source.dtype)
            rescale = stored.float() * down_step
        second, second_scale = _columns(down / rescale.unsqueeze(1), down_step, source.dtype, False)
        return cls(
            source.act_fn,
            multiplier=multiplier,
            zero_point=zero_point.to(source.dtype).expand_as(multiplier).contiguous(),
            gate_up=first,
            gate_up_scale=first_scale,
            gate_up_bias=(-offset).round().clamp(INT32.low, INT32.high).to(torch.int32),
            down=second,
            down_scale=second_scale,
            down_step=stored,
        )

    def route(self, hidden_states: Tensor, top_k_index: Tensor) -> Routed:
        """Quantises tokens with the stored scale and copies them."""
        tokens = torch.ops.npu.npu_quantize(
            hidden_states, self.multiplier, self.zero_point, torch.qint8, axis=-1, div_mode=False
        )
        return route(tokens, top_k_index, self.experts)

    def compute(self, routed: Routed, dtype: torch.dtype) -> Tensor:
        """Compute both products; gated rows are quantised with the stored scales."""
        between = (
            self._gate_fused if fits_fused_swiglu(self.act_fn, self.gate_up.size(2), "static") else self._gate_unfused
        )
        return grouped_matmul(between(routed, dtype), self.down, routed.counts, dtype, scale=self.down_scale)

    def _gate_fused(self, routed: Routed, _: torch.dtype) -> Tensor:
        rows, _scales = torch.ops.npu.npu_dequant_swiglu_quant(
            grouped_matmul(routed.rows, self.gate_up, routed.counts, torch.int32, bias=self.gate_up_bias),
            weight_scale=self.gate_up_scale,
            quant_scale=self.down_step,
            quant_offset=torch.zeros_like(self.down_step),
            group_index=routed.counts,
            activate_left=True,
            quant_mode=0,
        )
        return rows  # type: ignore[no-any-return]

    def _gate_unfused(self, routed: Routed, dtype: torch.dtype) -> Tensor:
        gate_up = grouped_matmul(
            routed.rows, self.gate_up, routed.counts, dtype, scale=self.gate_up_scale, bias=self.gate_up_bias
        )
        rows: Tensor = torch.ops.npu.npu_group_quant(
            self.gated(gate_up), self.down_step, routed.ends, dst_dtype=torch.qint8
        )
        return rows

    def extra_repr(self) -> str:
        """Return the text that ``print(model)`` shows."""
        return f"{super().extra_repr()}, smooth={self.multiplier.numel() > 1}"


def _steps(magnitude: Tensor) -> Tensor:
    """Return the scale of each expert, (experts, 1), for rows of absmax ``magnitude`` (experts, i); 1 for zero rows."""
    step = magnitude.amax(-1, keepdim=True) / INT8.high
    return torch.where(step > 0, step, torch.ones_like(step))


def _columns(weight: Tensor, step: Tensor, dtype: torch.dtype, exact: bool) -> tuple[Tensor, Tensor]:
    """Return ``weight`` (experts, n, k) as int8 columns, and their scales times ``step``."""
    scale = weights.channel_scales(weight, INT8) * step
    scale = scale if exact else weights.round_to_dtype(scale, scale_dtype(dtype))
    integers = weights.to_integers(weight, scale.float() / step, INT8)
    return weights.columns(integers, INT8), scale
