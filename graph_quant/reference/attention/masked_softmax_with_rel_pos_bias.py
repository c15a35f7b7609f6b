"""npu_masked_softmax_with_rel_pos_bias: ``softmax(x * scale + mask + bias)`` of image windows, in float32."""

from __future__ import annotations

from graph_quant.ge import kernel
from torch import Tensor


def masked_softmax(x: Tensor, atten_mask: Tensor | None, relative_pos_bias: Tensor, scale_value: float) -> Tensor:
    """Softmax over the last dimension; a window's mask applies to all heads, a head's bias to all windows."""
    heads, rows, columns = x.shape[-3:]
    scores = x.float() * float(scale_value)
    if atten_mask is not None:
        mask = atten_mask.float().reshape(-1, 1, rows, columns)
        scores = (scores.reshape(-1, mask.size(0), heads, rows, columns) + mask).reshape(x.shape)
    scores = scores + relative_pos_bias.float().reshape(heads, rows, columns)
    weights = (scores - scores.amax(-1, keepdim=True)).exp()
    return (weights / weights.sum(-1, keepdim=True)).to(x.dtype)


@kernel("MaskedSoftmaxWithRelPosBias", flops=6)
def masked_softmax_node(
    x: Tensor,
    atten_mask: Tensor | None,
    relative_pos_bias: Tensor,
    *,
    scale_value: float = 1.0,
    inner_precision_mode: int = 0,  # noqa: ARG001 - float32 in both
) -> Tensor:
    return masked_softmax(x, atten_mask, relative_pos_bias, scale_value)
