"""npu_kronecker_quant: ``p1 @ x @ p2`` of each token, quantised to int4 with a scale per token.

``x @ p2`` is summed in float32 and rounded to x's dtype; the product of ``p1`` and that is summed in float32 and
rounded to float16, also for bfloat16. With m the largest magnitude of a token, the scale is ``m * ratio / 7``, and the
elements are multiplied by ``7 / ratio / m`` (by 7 where m is 0) in float32, rounded to float16, then to int4. Tokens of
one row have a separate kernel, whose scale is ``m * (ratio / 7)``, and which divides by it.
"""

from __future__ import annotations

import torch
from graph_quant import int4
from graph_quant.destination import INT4, INT32
from graph_quant.ge import CONTRACTION, kernel
from graph_quant.reference.rounding import saturate
from torch import Tensor

_TOP = 7.0
# A2 and A3 produce int4 for both; TorchAir writes int32, the dtype of the torch tensor.
_INT4_ATTRIBUTES = (INT4.ge_attr, INT32.ge_attr)


def kronecker_quant(x: Tensor, kronecker_p1: Tensor, kronecker_p2: Tensor, ratio: float = 1.0) -> tuple[Tensor, Tensor]:
    """int4, packed eight to an int32, and the scale of each token."""
    elements, scale = flat_quant(x, kronecker_p1, kronecker_p2, clip_ratio=ratio)
    return int4.pack(elements), scale


@kernel("FlatQuant", flops=CONTRACTION, exact=True, packs=True)
def flat_quant(
    x: Tensor,
    kronecker_p1: Tensor,
    kronecker_p2: Tensor,
    *,
    clip_ratio: float = 1.0,
    dst_dtype: int = INT4.ge_attr,
    dst_type_max: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Compute the node; int4 is not packed."""
    if dst_dtype not in _INT4_ATTRIBUTES or dst_type_max:
        raise NotImplementedError(f"FlatQuant: only int4 has a host kernel, got dst_dtype {dst_dtype}")
    inner = torch.matmul(x.float(), kronecker_p2.float()).to(x.dtype)
    rotated = torch.matmul(kronecker_p1.float(), inner.float()).half().float()
    largest = rotated.abs().amax((1, 2))
    # The ratio is a float32 on the device.
    ratio = torch.full((), clip_ratio, dtype=torch.float32, device=x.device)
    if x.size(1) == 1:
        scale = largest * (ratio / _TOP)
        scaled = rotated / scale[:, None, None]
    else:
        multiplier = torch.where(largest != 0, (_TOP / ratio) / largest, _TOP)
        scale, scaled = largest * ratio / _TOP, rotated * multiplier[:, None, None]
    return saturate(scaled.half().float(), INT4), scale
