"""npu_apply_rotary_pos_emb: rotary embedding of queries and keys, in mode half.

The device writes the results over its inputs, and so does eager execution here. bfloat16 is computed in float32 and
rounded once, half away from zero, as by the A2/A3 kernel; float16 is computed in float16, with every product and the
sum rounded.
"""

from __future__ import annotations

import torch
from graph_quant.ge import kernel
from graph_quant.reference.rope.rotation import rotate_pairs
from torch import Tensor


def embedded(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """``x`` (…, heads, D) with its first channels, as many as ``cos`` has, rotated."""
    width = cos.size(-1)
    part, rest = x[..., :width], x[..., width:]
    if x.dtype == torch.bfloat16:
        turn = _halves_away_from_zero(part.float() * cos.float() + rotate_pairs(part.float()) * sin.float())
    else:
        turn = part * cos + rotate_pairs(part) * sin
    return torch.cat([turn, rest], -1)


def _halves_away_from_zero(values: Tensor) -> Tensor:
    """float32 rounded to bfloat16, half away from zero."""
    bits = values.contiguous().view(torch.int32)
    rounded = ((bits + 0x8000) & -0x10000).view(torch.float32)
    return torch.where(values.isfinite(), rounded, values).to(torch.bfloat16)


def apply_rotary_pos_emb(query: Tensor, key: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    """Both embeddings, written over the arguments."""
    return query.copy_(embedded(query, cos, sin)), key.copy_(embedded(key, cos, sin))


@kernel("ApplyRotaryPosEmb", flops=3, may_alias=True)
def apply_rotary_pos_emb_node(
    query: Tensor, key: Tensor, cos: Tensor, sin: Tensor, *, layout: int = 1, rotary_mode: str = "half"
) -> tuple[Tensor, Tensor]:
    if rotary_mode != "half":
        raise NotImplementedError(f"ApplyRotaryPosEmb: rotary_mode {rotary_mode!r} has no host kernel, only 'half'")
    if layout not in (1, 4):
        raise NotImplementedError(f"ApplyRotaryPosEmb: layout {layout} has no host kernel, only 1 (BSND) and 4 (TND)")
    return apply_rotary_pos_emb(query, key, cos, sin)
