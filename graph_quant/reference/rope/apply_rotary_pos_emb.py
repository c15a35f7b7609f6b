"""npu_apply_rotary_pos_emb: rotary embedding of queries and keys, in mode half; Ascend 950 has more.

The device writes the results over its inputs, and so does eager execution here. bfloat16 is computed in float32 and
rounded once, half away from zero, as by the A2/A3 kernel; float16 is computed in float16, with every product and the
sum rounded. Ascend 950 computes every dtype in float32 and rounds once, half to even.
"""

from __future__ import annotations

import torch
from graph_quant.chip import A2_A3_950, is_950
from graph_quant.ge import kernel
from graph_quant.reference.rope.rotation import HALF, INTERLEAVE, QUARTER, rotate_pairs
from torch import Tensor


def embedded(x: Tensor, cos: Tensor, sin: Tensor, mode: str = HALF) -> Tensor:
    """``x`` (…, heads, D) with its first channels, as many as ``cos`` has, rotated."""
    width = cos.size(-1)
    part, rest = x[..., :width], x[..., width:]
    if is_950():
        wide = part.float()
        turn = (wide * cos.float() + rotate_pairs(wide, mode) * sin.float()).to(x.dtype)
    elif x.dtype == torch.bfloat16:
        turn = _halves_away_from_zero(part.float() * cos.float() + rotate_pairs(part.float()) * sin.float())
    else:
        turn = part * cos + rotate_pairs(part) * sin
    return torch.cat([turn, rest], -1)


def pair_modes() -> tuple[str, ...]:
    """The modes of the chip in use."""
    return (HALF, INTERLEAVE, QUARTER) if is_950() else (HALF,)


def _halves_away_from_zero(values: Tensor) -> Tensor:
    """float32 rounded to bfloat16, half away from zero."""
    bits = values.contiguous().view(torch.int32)
    rounded = ((bits + 0x8000) & -0x10000).view(torch.float32)
    return torch.where(values.isfinite(), rounded, values).to(torch.bfloat16)


def apply_rotary_pos_emb(
    query: Tensor, key: Tensor, cos: Tensor, sin: Tensor, rotary_mode: str = HALF
) -> tuple[Tensor, Tensor]:
    """Both embeddings, written over the arguments."""
    return query.copy_(embedded(query, cos, sin, rotary_mode)), key.copy_(embedded(key, cos, sin, rotary_mode))


@kernel("ApplyRotaryPosEmb", flops=3, may_alias=True, chips=A2_A3_950)
def apply_rotary_pos_emb_node(
    query: Tensor, key: Tensor, cos: Tensor, sin: Tensor, *, layout: int = 1, rotary_mode: str = "half"
) -> tuple[Tensor, Tensor]:
    if rotary_mode not in pair_modes():
        raise NotImplementedError(f"ApplyRotaryPosEmb: rotary_mode {rotary_mode!r} has no host kernel")
    if layout not in (1, 4) and not (is_950() and layout in (2, 3)):
        raise NotImplementedError(f"ApplyRotaryPosEmb: layout {layout} has no host kernel, only 1 (BSND) and 4 (TND)")
    return apply_rotary_pos_emb(query, key, cos, sin, rotary_mode)
