"""npu_dynamic_block_quant: int8 with a scale for every 128 columns of a row.

With m the largest magnitude of a block, elements are multiplied by ``(1 / m) * 127`` and rounded to the nearest, and
the scale is ``m * (1 / 127)``, each step in float32. The multiplier is at least min_scale, and the scale at most its
reciprocal. Blocks of zeros give 0 and a scale of 0.

On Ascend 950 blocks have rows too, and become int8, float8 or HiFloat8: elements are divided by the scale ``m / M``,
which is at most the reciprocal of min_scale. A block with an infinity or NaN has that as its scale, and becomes zeros.
"""

from __future__ import annotations

import torch
from graph_quant import chip
from graph_quant.chip import A2_A3_950
from graph_quant.destination import INT8, Destination, element_destination
from graph_quant.ge import kernel
from graph_quant.reference.opaque import opaque
from graph_quant.reference.rounding import saturate
from torch import Tensor
from torch.nn import functional

COLUMNS = 128
_TOP = 127.0


def dynamic_block_quant(
    x: Tensor,
    min_scale: float = 0.0,
    destination: Destination = INT8,
    row_block_size: int = 1,
    col_block_size: int = COLUMNS,
    dst_type_max: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """``(y, scale)``; other arguments than the first two are for Ascend 950."""
    if chip.is_950():
        top = dst_type_max or float(destination.high)
        return quantise_in_blocks(x, min_scale, destination.ge_attr, row_block_size, col_block_size, top)
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


def _infer(
    x: Tensor, _min_scale: float, dst_type: int, row_block_size: int, col_block_size: int, _top: float
) -> tuple[Tensor, Tensor]:
    rows = (x.size(-2) + row_block_size - 1) // row_block_size
    columns = (x.size(-1) + col_block_size - 1) // col_block_size
    y = x.new_empty(x.shape, dtype=element_destination(dst_type).storage)
    return y, x.new_empty((*x.shape[:-2], rows, columns), dtype=torch.float32)


@opaque(_infer)
def quantise_in_blocks(
    x: Tensor, min_scale: float, dst_type: int, row_block_size: int, col_block_size: int, top: float
) -> tuple[Tensor, Tensor]:
    """``(y, scale)`` of Ascend 950. Inductor's own code is wrong where the last block of a row is short."""
    rows, columns = x.shape[-2:]
    padded = functional.pad(x.float(), (0, -columns % col_block_size, 0, -rows % row_block_size))
    values = padded.unflatten(-1, (-1, col_block_size)).unflatten(-3, (-1, row_block_size))
    largest = values.abs().amax((-3, -1), keepdim=True)
    scale = largest / torch.full_like(largest, top)
    if min_scale > 0:
        least = torch.full_like(largest, min_scale)
        scale = torch.where(scale.isfinite(), torch.minimum(scale, torch.ones_like(least) / least), scale)
    y = saturate(values / scale, element_destination(dst_type)).flatten(-4, -3).flatten(-2)
    return y[..., :rows, :columns].contiguous(), scale.squeeze(-1).squeeze(-2).contiguous()


@kernel("DynamicBlockQuant", flops=4, exact=True, chips=A2_A3_950)
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
    """Compute the node for the attributes that the chip supports."""
    if chip.is_950():
        destination = element_destination(dst_type)
        return dynamic_block_quant(x, min_scale, destination, row_block_size, col_block_size, dst_type_max)
    if (round_mode, dst_type, row_block_size, col_block_size, dst_type_max) != ("rint", INT8.ge_attr, 1, COLUMNS, 0.0):
        raise NotImplementedError(
            f"DynamicBlockQuant: rows of {COLUMNS} to int8 alone have a host kernel, got blocks of {row_block_size} by "
            f"{col_block_size} to dst_type {dst_type}"
        )
    return dynamic_block_quant(x, min_scale)
