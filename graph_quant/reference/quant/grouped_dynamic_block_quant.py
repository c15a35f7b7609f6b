"""npu_grouped_dynamic_block_quant: blocks of rows and columns, with groups of rows that share no block.

The scales of group i begin at the row ``start // row_block_size + i``. The device does not write rows of scales between
two groups, and elements beyond the last one; here they are 0.
"""

from __future__ import annotations

import torch
from graph_quant.chip import ASCEND_950
from graph_quant.destination import Destination, element_destination
from graph_quant.ge import kernel
from graph_quant.reference.grouping import ENDS, spans
from graph_quant.reference.opaque import opaque
from graph_quant.reference.quant.dynamic_block_quant import quantise_in_blocks
from torch import Tensor

_OP = "npu_grouped_dynamic_block_quant"


def grouped_dynamic_block_quant(
    x: Tensor,
    group_list: Tensor,
    min_scale: float,
    row_block_size: int,
    col_block_size: int,
    dst_type_max: float,
    destination: Destination,
) -> tuple[Tensor, Tensor]:
    """Quantise as npu_grouped_dynamic_block_quant does.

    Args:
        x: Tensor of float16 or bfloat16, a matrix or several.
        group_list: The ends of the groups of rows.
        min_scale: Scales are at most its reciprocal; 0 for no bound.
        row_block_size: The rows of a block.
        col_block_size: The columns of a block.
        dst_type_max: What the largest magnitude of a block becomes; 0 for the destination's largest value.
        destination: E4M3, E5M2 or HIFLOAT8 of ``graph_quant.destination``.

    Returns:
        The quantised tensor, and the float32 scales.
    """
    top = dst_type_max or float(destination.high)
    return quantise_groups_in_blocks(x, group_list, min_scale, destination.ge_attr, row_block_size, col_block_size, top)


def _infer(
    x: Tensor,
    group_list: Tensor,
    _min_scale: float,
    dst_type: int,
    row_block_size: int,
    col_block_size: int,
    _top: float,
) -> tuple[Tensor, Tensor]:
    y = x.new_empty(x.shape, dtype=element_destination(dst_type).storage)
    blocks = (x.size(-2) // row_block_size + group_list.size(0), (x.size(-1) + col_block_size - 1) // col_block_size)
    return y, x.new_empty((*x.shape[:-2], *blocks), dtype=torch.float32)


@opaque(_infer)
def quantise_groups_in_blocks(
    x: Tensor,
    group_list: Tensor,
    min_scale: float,
    dst_type: int,
    row_block_size: int,
    col_block_size: int,
    top: float,
) -> tuple[Tensor, Tensor]:
    """The quantised tensor and its scales."""
    arguments = min_scale, dst_type, row_block_size, col_block_size, top
    y, scale = _infer(x, group_list, *arguments)
    y.view(torch.uint8).zero_()
    scale.zero_()
    for span in spans(_OP, group_list, ENDS, group_list.size(0), x.size(-2), "group_list"):
        part, shared = quantise_in_blocks(x[..., span.as_slice, :].contiguous(), *arguments)
        y[..., span.as_slice, :] = part
        first = span.start // row_block_size + span.weight
        scale[..., first : first + shared.size(-2), :] = shared
    return y, scale


@kernel("GroupedDynamicBlockQuant", flops=4, chips=(ASCEND_950,))
def grouped_dynamic_block_quant_node(
    x: Tensor,
    group_list: Tensor,
    *,
    min_scale: float = 0.0,
    round_mode: str = "rint",
    dst_type: int = 35,
    row_block_size: int = 1,
    col_block_size: int = 128,
    group_list_type: int = 0,
    dst_type_max: float = 0.0,
) -> tuple[Tensor, Tensor]:
    if round_mode == "hybrid" or group_list_type:
        raise NotImplementedError("GroupedDynamicBlockQuant: round_mode hybrid and counts have no host kernel")
    destination = element_destination(dst_type)
    return grouped_dynamic_block_quant(
        x, group_list, min_scale, row_block_size, col_block_size, dst_type_max, destination
    )
