"""npu_dynamic_dual_level_mx_quant: float32 scales for every 512 elements of a row, and MX blocks of the quotients.

The first scale is the largest finite magnitude times float32's 1/6, or 0 if that is subnormal. Quotients are rounded to
the input's dtype; zeros stay zeros.
"""

from __future__ import annotations

import torch
from graph_quant.chip import ASCEND_950
from graph_quant.ge import kernel, stored_dtype
from graph_quant.narrow_floats import E2M1
from graph_quant.reference.quant.mx_blocks import MxRule, quantise_blocks, store_scales, store_values
from torch import Tensor
from torch.nn import functional

_WIDE = 512
_SMALLEST_NORMAL = 2.0**-126


def dynamic_dual_level_mx_quant(input: Tensor, round_mode: str = "rint") -> tuple[Tensor, Tensor, Tensor]:  # noqa: A002
    """Quantise as npu_dynamic_dual_level_mx_quant does.

    Args:
        input: Tensor of float16 or bfloat16.
        round_mode: "rint", "round" or "floor".

    Returns:
        ``(y, level0_scale, level1_scale)``: two float4_e2m1 to a uint8; float32; and uint8 codes in pairs.
    """
    codes, wide, scales = _quantise(input, round_mode)
    return store_values(codes, E2M1), wide, scales


def _quantise(x: Tensor, round_mode: str) -> tuple[Tensor, Tensor, Tensor]:
    """The codes, one to an element, the wide scales, and the codes of those of blocks in pairs."""
    length = x.size(-1)
    blocks = functional.pad(x, (0, -length % _WIDE)).unflatten(-1, (-1, _WIDE))
    values = blocks.float()
    largest = torch.where(values.isfinite(), values.abs(), 0.0).amax(-1)
    wide = largest * torch.full_like(largest, 1.0 / 6.0)
    wide = torch.where(wide < _SMALLEST_NORMAL, 0.0, wide)
    quotients = (values / wide.unsqueeze(-1)).to(x.dtype)
    quotients = torch.where(blocks == 0, blocks, quotients).flatten(-2)[..., :length]
    codes, scales = quantise_blocks(quotients, -1, MxRule(E2M1, round_mode=round_mode, keeps_tiny=True))
    return codes, wide, store_scales(scales, -1)


@kernel("DynamicDualLevelMxQuant", flops=9, chips=(ASCEND_950,))
def dynamic_dual_level_mx_quant_node(
    x: Tensor,
    smooth_scale: Tensor | None = None,
    *,
    round_mode: str = "rint",
    level0_block_size: int = 512,
    level1_block_size: int = 32,
) -> tuple[Tensor, Tensor, Tensor]:
    if smooth_scale is not None or (level0_block_size, level1_block_size) != (_WIDE, 32):
        raise NotImplementedError("DynamicDualLevelMxQuant: smooth_scale and other blocks have no host kernel")
    codes, wide, scales = _quantise(x, round_mode)
    return codes.view(stored_dtype(E2M1.name)), wide, scales.view(torch.float8_e8m0fnu)
