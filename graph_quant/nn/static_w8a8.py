"""int8 weights by channel, int8 activations with one scale and zero point found by calibration."""

from __future__ import annotations

import torch
from graph_quant.destination import INT8, INT32
from graph_quant.nn import weights
from graph_quant.nn.observe import Range
from graph_quant.nn.rows import as_rows, check_half, like_input
from torch import Tensor, nn


class StaticW8A8Linear(nn.Module):
    """``y = (int8(x) @ int8(weight) + bias) * scale``; x is float16 or bfloat16 (…, k), y the same (…, n).

    Buffers: ``weight`` int8 (k, n); ``multiplier`` and ``zero_point`` (1,) or, with smoothing, (k,), in the dtype of x;
    ``bias`` int32 (n,), which also takes the zero point's share of the product away; ``scale`` float32 (n,). float16
    results need the scale packed, which npu_trans_quant_param does in the graph; its values fit 19 bits already.
    """

    def __init__(self, weight: Tensor, multiplier: Tensor, zero_point: Tensor, scale: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.weight: Tensor
        self.multiplier: Tensor
        self.zero_point: Tensor
        self.scale: Tensor
        self.bias: Tensor
        self.register_buffer("weight", weight)
        self.register_buffer("multiplier", multiplier)
        self.register_buffer("zero_point", zero_point)
        self.register_buffer("scale", scale)
        self.register_buffer("bias", bias)

    @classmethod
    def from_float(
        cls, linear: nn.Linear, observed: Range, smooth: float | None = None, symmetric: bool = False
    ) -> StaticW8A8Linear:
        """Quantises for inputs of the ``observed`` range; ``smooth`` is SmoothQuant's alpha."""
        dtype = check_half("StaticW8A8Linear", "linear.weight", linear.weight.dtype)
        if observed.low.numel() != linear.in_features:
            raise ValueError(
                f"StaticW8A8Linear: observed must have in_features channels, {linear.in_features}, "
                f"got {observed.low.numel()}"
            )
        weight = linear.weight.detach().float()
        factor = torch.ones(1, device=weight.device)
        if smooth is not None:
            factor = weights.smoothing(observed.magnitude, weight.abs().amax(0), smooth)
        step, zero_point = activation_step(observed, factor, symmetric)
        # Rounded to the dtype of x, which the kernel wants; whatever it is, the weights take the inverse of it.
        multiplier = (factor / step).clamp(max=torch.finfo(dtype).max).to(dtype)
        weight = weight / (multiplier.float() * step)
        scale = weights.packable(weights.channel_scales(weight, INT8) * step)
        integers = weights.to_integers(weight, scale / step, INT8)
        share = zero_point * integers.sum(-1, dtype=torch.float64)
        bias = 0.0 if linear.bias is None else linear.bias.detach().double() / scale.double()
        total = (bias - share).round().clamp(INT32.low, INT32.high).to(torch.int32)
        zero_points = zero_point.to(dtype).expand_as(multiplier).contiguous()
        return cls(integers.t().contiguous(), multiplier, zero_points, scale, total)

    def forward(self, x: Tensor) -> Tensor:
        """Quantises x with the stored scale and multiplies."""
        rows = torch.ops.npu.npu_quantize(
            as_rows(x), self.multiplier, self.zero_point, torch.qint8, axis=-1, div_mode=False
        )
        scale = torch.ops.npu.npu_trans_quant_param(self.scale) if x.dtype == torch.float16 else self.scale
        y = torch.ops.npu.npu_quant_matmul(rows, self.weight, scale, bias=self.bias, output_dtype=x.dtype)
        return like_input(y, x)

    def extra_repr(self) -> str:
        """What printing a model shows."""
        return (
            f"in_features={self.weight.size(0)}, out_features={self.weight.size(1)}, "
            f"smooth={self.multiplier.numel() > 1}"
        )


def activation_step(observed: Range, factor: Tensor, symmetric: bool) -> tuple[Tensor, Tensor]:
    """The activation's scale and zero point; zero is always representable, and a constant zero has step 1."""
    low, high = (observed.low * factor).amin().clamp(max=0), (observed.high * factor).amax().clamp(min=0)
    if symmetric:
        step = torch.maximum(-low, high) / INT8.high
        zero_point = torch.zeros_like(step)
    else:
        step = (high - low) / (INT8.high - INT8.low)
        zero_point = (INT8.low - low / step).round().clamp(INT8.low, INT8.high)
    constant = step <= 0
    return torch.where(constant, 1.0, step), torch.where(constant, 0.0, zero_point)
