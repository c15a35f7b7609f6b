"""npu_group_quant: static quantisation with a row of scales for each group of rows, and one offset for all.

Row r of group e becomes ``sat(rint(x[r] * scale[e] + offset))``. ``group_index`` holds the end of each group; an empty
group is skipped.
"""

from __future__ import annotations

import torch
from graph_quant import native
from graph_quant.chip import A2_A3_950
from graph_quant.destination import INT8, Destination, element_destination
from graph_quant.ge import kernel
from graph_quant.reference.blocks import checked_ends, group_of_row, row_blocks
from graph_quant.reference.dequantise import elements
from graph_quant.reference.quant.row_quant import can_map_rows, scale_rows
from graph_quant.reference.rounding import affine


def group_quant(
    x: torch.Tensor,
    scale: torch.Tensor,
    group_index: torch.Tensor,
    offset: torch.Tensor | None = None,
    destination: Destination = INT8,
) -> torch.Tensor:
    """Quantise groups of rows, each with scales of its own, as npu_group_quant does.

    Args:
        x: Rows of shape (S, H).
        scale: Scales of shape (E, H), one row per group.
        group_index: The end of every group, ascending to S. It is not read where x has no elements.
        offset: One offset for all elements, or None.
        destination: What to store: INT8 or INT4 of ``graph_quant.destination``.

    Returns:
        The integers, contiguous; int4 packed into int32 with 1/8 of the last dimension.
    """
    if x.numel() == 0:
        return x.new_empty(destination.stored_shape(x.shape), dtype=destination.storage)
    group_index = checked_ends("npu_group_quant", group_index, x.size(0))
    if offset is not None:
        offset = offset.reshape(())
    if can_map_rows(x, destination) and native.can_map_rows(scale):
        return scale_rows(x, scale, group_index, offset, destination)
    if torch.compiler.is_compiling():
        return affine(x, scale[group_of_row(group_index, x.size(0))], offset, destination)
    quantised = []
    start = 0
    for group, end in enumerate(group_index.tolist()):
        quantised += [affine(x[rows], scale[group], offset, destination) for rows in row_blocks(start, end, x.size(1))]
        start = end
    return torch.cat(quantised)


def dequantise(
    y: torch.Tensor, scale: torch.Tensor, group_index: torch.Tensor, offset: torch.Tensor | None = None
) -> torch.Tensor:
    """Restore the values that ``group_quant`` stored, up to rounding and saturation.

    Args:
        y: The result of ``group_quant``.
        scale: The scales of that call.
        group_index: The group ends of that call.
        offset: The offset of that call.

    Returns:
        float32 of shape (S, H).
    """
    values = elements(y)
    if offset is not None:
        values = values - offset.float()
    return values / scale.float()[group_of_row(group_index, y.size(0))]


@kernel("GroupQuant", flops=3, exact=True, same=("scale", "offset"), packs=True, chips=A2_A3_950)
def group_quant_node(
    x: torch.Tensor,
    scale: torch.Tensor,
    group_index: torch.Tensor,
    offset: torch.Tensor | None = None,
    *,
    dst_type: int = 2,
) -> torch.Tensor:
    return group_quant(x, scale, group_index, offset, element_destination(dst_type))
