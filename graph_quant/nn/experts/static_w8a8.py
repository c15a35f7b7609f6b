"""Experts with int8 weights by channel and int8 activations, scaled by what calibration saw."""

from __future__ import annotations

import torch
from graph_quant.destination import INT8, INT32
from graph_quant.nn import weights
from graph_quant.nn.experts.base import QuantisedExperts, fits_one_kernel, scale_dtype
from graph_quant.nn.experts.products import Routed, grouped_product, route
from graph_quant.nn.experts.source import float_experts
from graph_quant.nn.observe import Range, check_ranges
from graph_quant.nn.static_w8a8 import activation_step
from torch import Tensor, nn


class StaticW8A8Experts(QuantisedExperts):
    """Tokens are quantised once, with one scale and zero point, then copied to their experts.

    What comes out of the gate is quantised symmetrically with a scale for each expert, or with smoothing for each of
    its channels. Between the products stands npu_dequant_swiglu_quant. Where it does not serve (an activation other
    than SiLU, or gates and ups that are not a multiple of 64 or more than 9472 together) the first product gives half
    precision, which is gated and goes through npu_group_quant.

    Buffers: ``multiplier`` and ``zero_point`` (1,) or, with smoothing, (k,), in the dtype of the tokens;
    ``gate_up_bias`` int32 (experts, 2i), which takes the zero point's share of the product away; ``gate_up_scale``
    (experts, 2i) and ``down_scale`` (experts, k), float32, or bfloat16 where a product gives it; ``down_step``: float32
    (experts,) or (experts, i), what gated rows are divided by, or (experts, i) in the dtype of the tokens, what they
    are multiplied with.
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
        """Quantises for inputs of the observed (experts, …) ranges; ``smooth`` is SmoothQuant's alpha."""
        source = float_experts("StaticW8A8Experts", experts)
        in_one = fits_one_kernel(source.act_fn, source.gate_up.size(1), "static")
        gate_up, down = source.gate_up.float(), source.down.float()
        seen, seen_inside = check_ranges("StaticW8A8Experts", gate_up, down, gate_up_input, down_input)
        entering = torch.ones(1, device=gate_up.device)
        inside = torch.ones_like(seen_inside.magnitude)
        if smooth is not None:
            entering = weights.smoothing(seen.overall.magnitude, gate_up.abs().amax((0, 1)), smooth)
            inside = weights.smoothing(seen_inside.magnitude, down.abs().amax(1), smooth)
        step, zero_point = activation_step(seen.overall, entering, symmetric)
        # Rounded to the dtype of the tokens, which the kernel wants; the weights take the inverse of what it became.
        multiplier = (entering / step).clamp(max=torch.finfo(source.dtype).max).to(source.dtype)
        first, first_scale = _columns(gate_up / (multiplier.float() * step), step, source.dtype, in_one)
        share = zero_point * first.sum(1, dtype=torch.float64)
        down_step = _steps(seen_inside.magnitude * inside)
        if in_one:
            stored = down_step.squeeze(1) if smooth is None else down_step / inside
            factor = torch.ones_like(inside) if smooth is None else down_step / stored
        else:
            stored = (inside / down_step).clamp(max=torch.finfo(source.dtype).max).to(source.dtype)
            factor = stored.float() * down_step
        second, second_scale = _columns(down / factor.unsqueeze(1), down_step, source.dtype, False)
        return cls(
            source.act_fn,
            multiplier=multiplier,
            zero_point=zero_point.to(source.dtype).expand_as(multiplier).contiguous(),
            gate_up=first,
            gate_up_scale=first_scale,
            gate_up_bias=(-share).round().clamp(INT32.low, INT32.high).to(torch.int32),
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
        """Rows are quantised with the stored scales between the products."""
        between = self._in_one if fits_one_kernel(self.act_fn, self.gate_up.size(2), "static") else self._in_steps
        return grouped_product(between(routed, dtype), self.down, routed.counts, dtype, scale=self.down_scale)

    def _in_one(self, routed: Routed, _: torch.dtype) -> Tensor:
        rows, _scales = torch.ops.npu.npu_dequant_swiglu_quant(
            grouped_product(routed.rows, self.gate_up, routed.counts, torch.int32, bias=self.gate_up_bias),
            weight_scale=self.gate_up_scale,
            quant_scale=self.down_step,
            quant_offset=torch.zeros_like(self.down_step),
            group_index=routed.counts,
            activate_left=True,
            quant_mode=0,
        )
        return rows  # type: ignore[no-any-return]

    def _in_steps(self, routed: Routed, dtype: torch.dtype) -> Tensor:
        gate_up = grouped_product(
            routed.rows, self.gate_up, routed.counts, dtype, scale=self.gate_up_scale, bias=self.gate_up_bias
        )
        rows: Tensor = torch.ops.npu.npu_group_quant(
            self.gated(gate_up), self.down_step, routed.ends, dst_dtype=torch.qint8
        )
        return rows

    def extra_repr(self) -> str:
        """What printing a model shows."""
        return f"{super().extra_repr()}, smooth={self.multiplier.numel() > 1}"


def _steps(magnitude: Tensor) -> Tensor:
    """The step of each expert, (experts, 1), for rows of ``magnitude`` (experts, i); 1 where all is zero."""
    step = magnitude.amax(-1, keepdim=True) / INT8.high
    return torch.where(step > 0, step, torch.ones_like(step))


def _columns(weight: Tensor, step: Tensor, dtype: torch.dtype, exact: bool) -> tuple[Tensor, Tensor]:
    """int8 columns of ``weight`` (experts, n, k), and their scales times ``step``, as the product takes them."""
    scale = weights.channel_scales(weight, INT8) * step
    scale = scale if exact else weights.representable(scale, scale_dtype(dtype))
    integers = weights.to_integers(weight, scale.float() / step, INT8)
    return weights.columns(integers, INT8), scale
