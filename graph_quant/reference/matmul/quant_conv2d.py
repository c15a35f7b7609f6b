"""npu_quant_conv2d: an int8 convolution, dequantised to float16 by the packed parameter of each channel.

``(x * filter + bias) * scale``: products and an int32 bias are summed exactly in int32, then multiplied in float32 and
rounded once. ``offset_x`` is the padding value; the sum is not corrected for it.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from graph_quant import quant_params
from graph_quant.ge import CONVOLUTION, kernel
from graph_quant.reference.matmul.int8_matmul import int8_matmul
from torch import Tensor
from torch.nn import functional

_FLOAT16 = 1


def windows(x: Tensor, kernel_size: Sequence[int], strides: Sequence[int], dilations: Sequence[int]) -> Tensor:
    """The window of ``x`` under each output position: (n, c, h, w, kernel_h, kernel_w)."""
    for axis, (size, stride, dilation) in enumerate(zip(kernel_size, strides, dilations, strict=True), 2):
        x = x.unfold(axis, dilation * (size - 1) + 1, stride)[..., ::dilation]
    return x


def accumulated(x: Tensor, weight: Tensor, strides: Sequence[int], dilations: Sequence[int]) -> Tensor:
    """The int32 sums of a padded ``x`` and the filters of one group: (n, h, w, channels)."""
    seen = windows(x, weight.shape[2:], strides, dilations).permute(0, 2, 3, 1, 4, 5)
    batch, height, width = seen.shape[:3]
    rows = seen.reshape(batch * height * width, weight[0].numel())
    return int8_matmul(rows, weight.reshape(weight.size(0), -1).t()).reshape(batch, height, width, weight.size(0))


@kernel("QuantConv2D", flops=CONVOLUTION, exact=True)
def quant_conv2d_node(
    x: Tensor,
    filter: Tensor,  # noqa: A002
    scale: Tensor,
    bias: Tensor | None = None,
    offset: Tensor | None = None,
    *,
    dtype: int,
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int] = (1, 1, 1, 1),
    groups: int = 1,
    data_format: str = "NHWC",
    offset_x: int = 0,
    round_mode: str = "rint",  # noqa: ARG001 (reserved)
) -> Tensor:
    """Compute the node for the attributes that A2 and A3 support."""
    if dtype != _FLOAT16 or data_format != "NCHW" or offset is not None or x.dtype != torch.int8:
        raise NotImplementedError("QuantConv2D: only int8 to float16 with channels first has a host kernel")
    top, bottom, left, right = pads
    padded = functional.pad(x, (left, right, top, bottom), value=offset_x)
    sums = torch.cat(
        [
            accumulated(part, some, strides[2:], dilations[2:])
            for part, some in zip(padded.chunk(groups, 1), filter.chunk(groups), strict=True)
        ],
        -1,
    )
    whole = sums if bias is None else sums + bias
    scales = quant_params.decode(scale.view(torch.int64))[0]
    return (whole.float() * scales).to(torch.float16).permute(0, 3, 1, 2).contiguous()
