"""int4 weights, int8 activations by token, scaled at run time."""

from __future__ import annotations

import torch
from graph_quant.nn import schemes
from graph_quant.nn.experts.products import grouped_product
from graph_quant.nn.rows import as_rows, check_half, like_input
from torch import Tensor, nn


class W4A8Linear(nn.Module):
    """``y = dequantise(int8(x) @ int4(weight)) + bias``; x is float16 or bfloat16 (…, k), y the same (…, n).

    npu_grouped_matmul multiplies, with one group of rows: npu_quant_matmul computes the same, but takes no scales of
    stretches other than 256. k must be a multiple of 64 and n of 8. Buffers: ``weight`` int32 (1, k, n/8); ``scale``
    int64 (1, groups, n), the bits of float32; ``assist`` float32 (1, n), ``8 * sum(weight * scale)``, which the kernel
    asks for; ``bias`` in the dtype of x (n,) or None, added to the rounded product.
    """

    def __init__(self, weight: Tensor, scale: Tensor, assist: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.weight: Tensor
        self.scale: Tensor
        self.assist: Tensor
        self.bias: Tensor | None
        self.register_buffer("weight", weight)
        self.register_buffer("scale", scale)
        self.register_buffer("assist", assist)
        self.register_buffer("bias", bias)

    @classmethod
    def from_float(cls, linear: nn.Linear, group_size: int | None = None) -> W4A8Linear:
        """Quantises the weight, with a scale for each output channel or for each ``group_size`` of its inputs."""
        check_half("W4A8Linear", "linear.weight", linear.weight.dtype)
        bias = None if linear.bias is None else linear.bias.detach().clone()
        return cls(*schemes.split("W4A8Linear", linear.weight.unsqueeze(0), group_size), bias)

    def forward(self, x: Tensor) -> Tensor:
        """Quantises each row of x by its largest magnitude and multiplies."""
        rows, token_scales = torch.ops.npu.npu_dynamic_quant(as_rows(x))
        y = grouped_product(
            rows,
            self.weight,
            torch.full((1,), rows.size(0), dtype=torch.int64, device=x.device),
            x.dtype,
            scale=self.scale,
            bias=self.assist,
            per_token_scale=token_scales,
        )
        return like_input(y if self.bias is None else y + self.bias, x)

    def extra_repr(self) -> str:
        """What printing a model shows."""
        return (
            f"in_features={self.weight.size(1)}, out_features={self.assist.size(-1)}, "
            f"bias={self.bias is not None}, group_size={self.weight.size(1) // self.scale.size(1)}"
        )
