"""int8 weights by channel, int8 activations by token with scales computed at run time."""

from __future__ import annotations

import torch
from graph_quant.destination import INT8
from graph_quant.nn import weights
from graph_quant.nn.observe import Range
from graph_quant.nn.rows import as_rows, check_half, like_input
from torch import Tensor, nn


class DynamicW8A8Linear(nn.Module):
    """A linear in W8A8 with dynamic activation scales: ``y = dequantise(int8(x) @ int8(weight)) + bias``.

    Args:
        weight: int8 (n, k). The operator gets a transposed view, the fastest layout for few rows.
        scale: float32 (n,).
        bias: float32 (n,), or None.
        smooth: (k,) in the dtype of x, or None; x is multiplied by it before it is quantised.

    Examples:
        >>> linear = DynamicW8A8Linear.from_float(nn.Linear(64, 128).half().npu())
        >>> linear(torch.randn(4, 64).half().npu()).shape
        torch.Size([4, 128])
    """

    def __init__(self, weight: Tensor, scale: Tensor, bias: Tensor | None, smooth: Tensor | None) -> None:
        super().__init__()
        self.weight: Tensor
        self.scale: Tensor
        self.bias: Tensor | None
        self.smooth: Tensor | None
        for name, tensor in {"weight": weight, "scale": scale, "bias": bias, "smooth": smooth}.items():
            self.register_buffer(name, tensor)

    @classmethod
    def from_float(
        cls, linear: nn.Linear, observed: Range | None = None, smooth: float | None = None
    ) -> DynamicW8A8Linear:
        """Quantise a linear.

        Args:
            linear: A linear with float16 or bfloat16 weights.
            observed: The range of its input; needed for ``smooth``.
            smooth: SmoothQuant's alpha, or None.

        Returns:
            The quantised linear.

        Raises:
            TypeError: The weight is neither float16 nor bfloat16.
            ValueError: ``smooth`` without ``observed``.
        """
        dtype = check_half("DynamicW8A8Linear", "linear.weight", linear.weight.dtype)
        weight = linear.weight.detach().float()
        smoothing = None
        if smooth is not None:
            if observed is None:
                raise ValueError("DynamicW8A8Linear: smooth needs the observed range of the input, got None")
            smoothing = weights.smoothing(observed.magnitude, weight.abs().amax(0), smooth).to(dtype)
            weight = weight / smoothing.float()
        scale = weights.channel_scales(weight, INT8)
        integers = weights.to_integers(weight, scale, INT8)
        bias = None if linear.bias is None else linear.bias.detach().float()
        return cls(integers, scale, bias, smoothing)

    def forward(self, x: Tensor) -> Tensor:
        """Quantise each row of ``x`` by its absmax, and multiply.

        Args:
            x: float16 or bfloat16 (…, k).

        Returns:
            The product (…, n), in the dtype of ``x``.
        """
        rows, token_scales = torch.ops.npu.npu_dynamic_quant(as_rows(x), smooth_scales=self.smooth)
        y = torch.ops.npu.npu_quant_matmul(
            rows, self.weight.t(), self.scale, pertoken_scale=token_scales, bias=self.bias, output_dtype=x.dtype
        )
        return like_input(y, x)

    def extra_repr(self) -> str:
        """Return the text that ``print(model)`` shows."""
        return (
            f"in_features={self.weight.size(1)}, out_features={self.weight.size(0)}, "
            f"bias={self.bias is not None}, smooth={self.smooth is not None}"
        )
