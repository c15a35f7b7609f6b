"""npu_dynamic_block_quant: int8 with a scale for every 128 columns of a row.

With m the largest magnitude of a block, elements are multiplied by ``(1 / m) * 127`` and rounded to the nearest, and
the scale is ``m * (1 / 127)``, each step in float32. The multiplier is at least min_scale, and the scale at most its
reciprocal. Blocks of zeros give 0 and a scale of 0.
"""

from __future__ import annotations

import torch
from graph_quant.destination import INT8
from graph_quant.ge import kernel
from graph_quant.reference.rounding import saturate
from torch import Tensor
from torch.nn import functional

COLUMNS = 128
_TOP = 127.0


def dynamic_block_quant(x: Tensor, min_scale: float = 0.0) -> tuple[Tensor, Tensor]:
    """``(y, scale)``."""
    width = x.size(-1)
    blocks = functional.pad(x.float(), (0, -width % COLUMNS)).unflatten(-1, (-1, COLUMNS))
    largest = blocks.abs().amax(-1)
    one = torch.ones_like(largest)
    multiplier, scale = one / largest * _TOP, largest * (one / _TOP)
    if min_scale > 0:
        least = torch.full_like(largest, min_scale)
        multiplier, scale = torch.maximum(multiplier, least), torch.minimum(scale, one / least)
    integers = saturate(blocks * multiplier.unsqueeze(-1), INT8)
    return integers.flatten(-2)[..., :width].contiguous(), scale


@kernel("DynamicBlockQuant", flops=4, exact=True)
def dynamic_block_quant_node(
    x: Tensor,
    *,
    min_scale: float = 0.0,
    round_mode: str = "rint",
    dst_type: int = INT8.ge_attr,
    row_block_size: int = 1,
    col_block_size: int = COLUMNS,
    dst_type_max: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Compute the node for the attributes that A2 and A3 support."""
    if (round_mode, dst_type, row_block_size, col_block_size, dst_type_max) != ("rint", INT8.ge_attr, 1, COLUMNS, 0.0):
        raise NotImplementedError(
            f"DynamicBlockQuant: rows of {COLUMNS} to int8 alone have a host kernel, got blocks of {row_block_size} by "
            f"{col_block_size} to dst_type {dst_type}"
        )
    return dynamic_block_quant(x, min_scale)
