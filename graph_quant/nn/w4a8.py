"""int4 weights, int8 activations by token with scales computed at run time."""

from __future__ import annotations

import torch
from graph_quant.nn import schemes
from graph_quant.nn.experts.products import grouped_matmul
from graph_quant.nn.rows import as_rows, check_half, like_input
from torch import Tensor, nn


class W4A8Linear(nn.Module):
    """A linear in W4A8 with dynamic activation scales: ``y = dequantise(int8(x) @ int4(weight)) + bias``.

    It uses npu_grouped_matmul with one group of rows: npu_quant_matmul supports no group size other than 256.

    Args:
        weight: int32 (1, k, n/8); k must be a multiple of 64 and n of 8.
        scale: int64 (1, groups, n), the bits of float32.
        assist: float32 (1, n), ``8 * sum(weight * scale)``, an argument of the kernel.
        bias: (n,) in the dtype of x, or None; added to the rounded product.

    Examples:
        >>> W4A8Linear.from_float(nn.Linear(256, 128).half().npu(), group_size=128)
        W4A8Linear(in_features=256, out_features=128, bias=True, group_size=128)
    """

    def __init__(self, weight: Tensor, scale: Tensor, assist: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.weight: Tensor
        self.scale: Tensor
        self.assist: Tensor
        self.bias: Tensor | None
        for name, tensor in {"weight": weight, "scale": scale, "assist": assist, "bias": bias}.items():
            self.register_buffer(name, tensor)

    @classmethod
    def from_float(cls, linear: nn.Linear, group_size: int | None = None) -> W4A8Linear:
        """Quantise a linear.

        Args:
            linear: A linear with float16 or bfloat16 weights.
            group_size: How many input channels share a scale; None for one scale for each output channel.

        Returns:
            The quantised linear.

        Raises:
            TypeError: The weight is neither float16 nor bfloat16.
            ValueError: The sizes do not fit the kernel, or ``group_size`` does not fit them.
        """
        check_half("W4A8Linear", "linear.weight", linear.weight.dtype)
        bias = None if linear.bias is None else linear.bias.detach().clone()
        return cls(*schemes.split("W4A8Linear", linear.weight.unsqueeze(0), group_size), bias)

    def forward(self, x: Tensor) -> Tensor:
        """Quantise each row of ``x`` by its absmax, and multiply.

        Args:
            x: float16 or bfloat16 (…, k).

        Returns:
            The product (…, n), in the dtype of ``x``.
        """
        rows, token_scales = torch.ops.npu.npu_dynamic_quant(as_rows(x))
        y = grouped_matmul(
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
        """Return the text that ``print(model)`` shows."""
        return (
            f"in_features={self.weight.size(1)}, out_features={self.assist.size(-1)}, "
            f"bias={self.bias is not None}, group_size={self.weight.size(1) // self.scale.size(1)}"
        )
