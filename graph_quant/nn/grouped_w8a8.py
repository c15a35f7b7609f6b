"""Linears of several experts over rows sorted by expert: int8 weights by channel, static int8 activations."""

from __future__ import annotations

import torch
from graph_quant.destination import INT8
from graph_quant.nn import weights
from graph_quant.nn.observe import Range
from graph_quant.nn.rows import check_half
from torch import Tensor, nn


class GroupedW8A8Linear(nn.Module):
    """Row r of x, which belongs to group e, becomes ``dequantise(int8(x[r]) @ int8(weight[e]))``.

    x is float16 or bfloat16 (S, k), sorted by group, the result the same (S, n). Buffers: ``multiplier`` (experts, k)
    in the dtype of x, ``weight`` int8 (experts, k, n), ``scale`` float32 (experts, n).

    npu_group_quant quantises all rows at once. The product runs over all rows for each expert and rows take the result
    of their own, so that no shape depends on how many tokens an expert got: the work is the number of experts times
    that of one linear.
    """

    def __init__(self, weight: Tensor, multiplier: Tensor, scale: Tensor) -> None:
        super().__init__()
        self.weight: Tensor
        self.multiplier: Tensor
        self.scale: Tensor
        self.register_buffer("weight", weight)
        self.register_buffer("multiplier", multiplier)
        self.register_buffer("scale", scale)

    @classmethod
    def from_float(cls, weight: Tensor, observed: Range, smooth: float | None = None) -> GroupedW8A8Linear:
        """Quantises ``weight`` (experts, n, k) for inputs of the ``observed`` range, (experts, k)."""
        dtype = check_half("GroupedW8A8Linear", "weight", weight.dtype)
        experts, _, depth = weight.shape
        if observed.low.shape != (experts, depth):
            raise ValueError(
                f"GroupedW8A8Linear: observed must have the shape (experts, k), {[experts, depth]}, "
                f"got {list(observed.low.shape)}"
            )
        weight = weight.detach().float()
        magnitude = observed.magnitude
        factor = torch.ones_like(magnitude)
        if smooth is not None:
            factor = weights.smoothing(magnitude, weight.abs().amax(1), smooth)
        step = (magnitude * factor).amax(-1, keepdim=True) / INT8.high
        step = torch.where(step > 0, step, torch.ones_like(step))
        multiplier = (factor / step).clamp(max=torch.finfo(dtype).max).to(dtype)
        weight = weight / (multiplier.float() * step).unsqueeze(1)
        scale = weights.packable(weights.channel_scales(weight, INT8) * step)
        integers = weights.to_integers(weight, scale / step, INT8)
        return cls(integers.mT.contiguous(), multiplier, scale)

    def forward(self, x: Tensor, group_ends: Tensor, group_of_row: Tensor) -> Tensor:
        """``group_ends`` (experts,) says where the rows of each group end, ``group_of_row`` (S,) the group of each."""
        rows = torch.ops.npu.npu_group_quant(x, self.multiplier, group_ends, dst_dtype=torch.qint8)
        group = group_of_row.unsqueeze(-1)
        result: Tensor | None = None
        for expert, (weight, scale) in enumerate(zip(self.weight.unbind(), self.scale.unbind(), strict=True)):
            if x.dtype == torch.float16:
                scale = torch.ops.npu.npu_trans_quant_param(scale)
            product = torch.ops.npu.npu_quant_matmul(rows, weight, scale, output_dtype=x.dtype)
            result = product if result is None else torch.where(group == expert, product, result)
        assert result is not None
        return result

    def extra_repr(self) -> str:
        """What printing a model shows."""
        experts, in_features, out_features = self.weight.shape
        return f"experts={experts}, in_features={in_features}, out_features={out_features}"
