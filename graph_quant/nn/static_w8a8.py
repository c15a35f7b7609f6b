"""int8 weights by channel, int8 activations with one calibrated scale and zero point."""

from __future__ import annotations

import torch
from graph_quant.destination import INT8, INT32
from graph_quant.nn import weights
from graph_quant.nn.observe import Range
from graph_quant.nn.rows import as_rows, check_half, like_input
from torch import Tensor, nn


class StaticW8A8Linear(nn.Module):
    """A linear in W8A8 with calibrated activation scales: ``y = (int8(x) @ int8(weight) + bias) * scale``.

    float16 results need the scale packed, which npu_trans_quant_param does in the graph; it is rounded to 19 bits
    beforehand.

    Args:
        weight: int8 (k, n).
        multiplier: The inverse activation scale, (1,) or with smoothing (k,), in the dtype of x.
        zero_point: The activation's zero point, shaped like ``multiplier``.
        scale: float32 (n,), the scale of the int32 product.
        bias: int32 (n,), which also subtracts the zero point's contribution.

    Examples:
        >>> with observe(model) as seen:
        ...     model(samples)
        >>> StaticW8A8Linear.from_float(model.proj, seen.ranges["proj"])
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
        """Quantise a linear for inputs of the observed range.

        Args:
            linear: A linear with float16 or bfloat16 weights.
            observed: The range of its input.
            smooth: SmoothQuant's alpha, or None.
            symmetric: Whether the activation has no zero point.

        Returns:
            The quantised linear.

        Raises:
            TypeError: The weight is neither float16 nor bfloat16.
            ValueError: The range does not have in_features channels.
        """
        dtype = check_half("StaticW8A8Linear", "linear.weight", linear.weight.dtype)
        if observed.low.numel() != linear.in_features:
            raise ValueError(
                f"StaticW8A8Linear: observed must have in_features channels, {linear.in_features}, "
                f"got {observed.low.numel()}"
            )
        weight = linear.weight.detach().float()
        smoothing = torch.ones(1, device=weight.device)
        if smooth is not None:
            smoothing = weights.smoothing(observed.magnitude, weight.abs().amax(0), smooth)
        step, zero_point = activation_step(observed, smoothing, symmetric)
        # Rounded to the dtype of x for the kernel; the weights are divided by the rounded value.
        multiplier = (smoothing / step).clamp(max=torch.finfo(dtype).max).to(dtype)
        weight = weight / (multiplier.float() * step)
        scale = weights.round_to_packed(weights.channel_scales(weight, INT8) * step)
        integers = weights.to_integers(weight, scale / step, INT8)
        offset = zero_point * integers.sum(-1, dtype=torch.float64)
        bias = 0.0 if linear.bias is None else linear.bias.detach().double() / scale.double()
        total = (bias - offset).round().clamp(INT32.low, INT32.high).to(torch.int32)
        zero_points = zero_point.to(dtype).expand_as(multiplier).contiguous()
        return cls(integers.t().contiguous(), multiplier, zero_points, scale, total)

    def forward(self, x: Tensor) -> Tensor:
        """Quantise ``x`` with the stored scale, and multiply.

        Args:
            x: float16 or bfloat16 (…, k).

        Returns:
            The product (…, n), in the dtype of ``x``.
        """
        rows = torch.ops.npu.npu_quantize(
            as_rows(x), self.multiplier, self.zero_point, torch.qint8, axis=-1, div_mode=False
        )
        scale = torch.ops.npu.npu_trans_quant_param(self.scale) if x.dtype == torch.float16 else self.scale
        y = torch.ops.npu.npu_quant_matmul(rows, self.weight, scale, bias=self.bias, output_dtype=x.dtype)
        return like_input(y, x)

    def extra_repr(self) -> str:
        """Return the text that ``print(model)`` shows."""
        return (
            f"in_features={self.weight.size(0)}, out_features={self.weight.size(1)}, "
            f"smooth={self.multiplier.numel() > 1}"
        )


def activation_step(observed: Range, smoothing: Tensor, symmetric: bool) -> tuple[Tensor, Tensor]:
    """Return the activation's scale and zero point. Zero is always representable; a constant zero has scale 1."""
    low, high = (observed.low * smoothing).amin().clamp(max=0), (observed.high * smoothing).amax().clamp(min=0)
    if symmetric:
        step = torch.maximum(-low, high) / INT8.high
        zero_point = torch.zeros_like(step)
    else:
        step = (high - low) / (INT8.high - INT8.low)
        zero_point = (INT8.low - low / step).round().clamp(INT8.low, INT8.high)
    constant = step <= 0
    return torch.where(constant, 1.0, step), torch.where(constant, 0.0, zero_point)
