"""_npu_rotary_embedding: ``x * cos + rotate(x) * sin`` in float32, rounded once; pairs are halves or neighbours."""

from __future__ import annotations

import torch
from graph_quant.refusals import Refusal
from torch import Tensor


def rotate(
    positions: Tensor, query: Tensor, key: Tensor, head_size: int, cos_sin_cache: Tensor, is_neox_style: bool
) -> tuple[()]:
    """Rotates the heads of query and key in place; pairs are halves in NeoX style, else neighbours."""
    rows = positions.flatten().long()
    if rows.numel() and not 0 <= int(rows.min()) <= int(rows.max()) < cos_sin_cache.size(0):
        raise Refusal(
            f"_npu_rotary_embedding: positions must lie in [0, {cos_sin_cache.size(0)}), the rows of cos_sin_cache, "
            f"got {int(rows.min())} to {int(rows.max())}"
        )
    cos, sin = cos_sin_cache[rows].float().unsqueeze(1).chunk(2, -1)
    for tensor in (query, key):
        heads = tensor.float().unflatten(1, (-1, head_size))
        pairs = heads.unflatten(-1, (2, -1)).unbind(-2) if is_neox_style else heads.unflatten(-1, (-1, 2)).unbind(-1)
        rotated = [pairs[0] * cos - pairs[1] * sin, pairs[1] * cos + pairs[0] * sin]
        tensor.copy_(torch.stack(rotated, -2 if is_neox_style else -1).flatten(1).reshape(tensor.shape))
    return ()
