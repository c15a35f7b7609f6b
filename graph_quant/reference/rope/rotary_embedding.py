"""_npu_rotary_embedding: ``x * cos + rotate(x) * sin`` in float32, rounded once; pairs are halves or neighbours."""

from __future__ import annotations

import torch
from graph_quant.mistakes import warn_once
from graph_quant.refusals import Refusal
from torch import Tensor

_first_table: list[Tensor] = []


def rotate(
    positions: Tensor, query: Tensor, key: Tensor, head_size: int, cos_sin_cache: Tensor, is_neox_style: bool
) -> tuple[()]:
    """Rotates the heads of query and key in place; pairs are halves in NeoX style, else neighbours.

    In NeoX style the table is as wide as a head, whatever head_size is: torch_npu does not pass it on.
    """
    width = cos_sin_cache.size(1) if is_neox_style else head_size
    rows = positions.flatten().long()
    if rows.numel() and not 0 <= int(rows.min()) <= int(rows.max()) < cos_sin_cache.size(0):
        raise Refusal(
            f"_npu_rotary_embedding: positions must lie in [0, {cos_sin_cache.size(0)}), the rows of cos_sin_cache, "
            f"got {int(rows.min())} to {int(rows.max())}"
        )
    _warn_of_second_table(cos_sin_cache, rows)
    cos, sin = cos_sin_cache[rows].float().unsqueeze(1).chunk(2, -1)
    for tensor in (query, key):
        heads = tensor.float().unflatten(1, (-1, width))
        pairs = heads.unflatten(-1, (2, -1)).unbind(-2) if is_neox_style else heads.unflatten(-1, (-1, 2)).unbind(-1)
        rotated = [pairs[0] * cos - pairs[1] * sin, pairs[1] * cos + pairs[0] * sin]
        tensor.copy_(torch.stack(rotated, -2 if is_neox_style else -1).flatten(1).reshape(tensor.shape))
    return ()


def _warn_of_second_table(table: Tensor, rows: Tensor) -> None:
    """Warn where the first table of a process has other rows: torch_npu goes on with it on a device."""
    if not _first_table:
        _first_table.append(table.clone())
    first = _first_table[0]
    is_inside = first.size(1) == table.size(1) and (not rows.numel() or int(rows.max()) < first.size(0))
    if not is_inside or not torch.equal(first[rows].float(), table[rows].float()):
        warn_once(
            "_npu_rotary_embedding",
            "cos_sin_cache",
            "cos_sin_cache differs from the first one of this process, which torch_npu keeps for all later calls on a "
            "device; here each call uses its own",
        )
