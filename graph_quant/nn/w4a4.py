"""int4 weights by channel, int4 activations by token with scales computed at run time."""

from __future__ import annotations

import torch
from graph_quant import int4
from graph_quant.destination import INT4
from graph_quant.nn import weights
from graph_quant.nn.rows import as_rows, check_half, like_input
from torch import Tensor, nn


class W4A4Linear(nn.Module):
    """A linear in W4A4 with dynamic activation scales: ``y = dequantise(int4(x) @ int4(weight)) + bias``.

    Args:
        weight: int32 (n, k/8), eight int4 in each; k must be a multiple of 8. The operator gets a transposed view.
        scale: float32 (n,).
        bias: float32 (n,), or None.

    Examples:
        >>> W4A4Linear.from_float(nn.Linear(64, 128).half().npu())
        W4A4Linear(in_features=64, out_features=128, bias=True)
    """

    def __init__(self, weight: Tensor, scale: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.weight: Tensor
        self.scale: Tensor
        self.bias: Tensor | None
        for name, tensor in {"weight": weight, "scale": scale, "bias": bias}.items():
            self.register_buffer(name, tensor)

    @classmethod
    def from_float(cls, linear: nn.Linear) -> W4A4Linear:
        """Quantise a linear.

        Args:
            linear: A linear with float16 or bfloat16 weights.

        Returns:
            The quantised linear.

        Raises:
            TypeError: The weight is neither float16 nor bfloat16.
            ValueError: in_features is not a multiple of 8.
        """
        check_half("W4A4Linear", "linear.weight", linear.weight.dtype)
        if linear.in_features % INT4.packing:
            raise ValueError(f"W4A4Linear: in_features must be a multiple of 8, got {linear.in_features}")
        weight = linear.weight.detach().float()
        scale = weights.channel_scales(weight, INT4)
        bias = None if linear.bias is None else linear.bias.detach().float()
        return cls(int4.pack(weights.to_integers(weight, scale, INT4)), scale, bias)

    def forward(self, x: Tensor) -> Tensor:
        """Quantise each row of ``x`` by its absmax, and multiply.

        Args:
            x: float16 or bfloat16 (…, k).

        Returns:
            The product (…, n), in the dtype of ``x``.
        """
        rows, token_scales = torch.ops.npu.npu_dynamic_quant(as_rows(x), dst_type=torch.quint4x2)
        y = torch.ops.npu.npu_quant_matmul(
            rows, self.weight.t(), self.scale, pertoken_scale=token_scales, bias=self.bias, output_dtype=x.dtype
        )
        return like_input(y, x)

    def extra_repr(self) -> str:
        """Return the text that ``print(model)`` shows."""
        in_features = self.weight.size(1) * INT4.packing
        return f"in_features={in_features}, out_features={self.weight.size(0)}, bias={self.bias is not None}"
