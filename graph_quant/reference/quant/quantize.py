"""npu_quantize: static quantisation with a scale and zero point for the tensor, or for each position of an axis.

``div_mode=False`` multiplies, ``sat(rint(x*scale + zero_point))``; ``div_mode=True`` divides,
``sat(rint(x/scale + zero_point))``. The zero point is added before rounding in both.
"""

from __future__ import annotations

import torch
from graph_quant.chip import A2_A3_950
from graph_quant.destination import HIFLOAT8, INT8, INT32, NARROW, UINT8, Destination, element_destination
from graph_quant.ge import kernel
from graph_quant.reference.blocks import by_row_blocks
from graph_quant.reference.dequantise import elements
from graph_quant.reference.rounding import affine


def along_axis(parameter: torch.Tensor, rank: int, axis: int) -> torch.Tensor:
    """A scale or zero point shaped to broadcast along ``axis`` of a tensor of ``rank`` dimensions."""
    shape = [1] * rank
    shape[axis] = -1
    return parameter.reshape(shape)


def quantize(
    x: torch.Tensor,
    scales: torch.Tensor,
    zero_points: torch.Tensor | None,
    along: int = -1,
    destination: Destination = INT8,
    *,
    divide: bool = False,
) -> torch.Tensor:
    """Quantise a tensor with given scales, as npu_quantize does.

    Args:
        x: Tensor of float32, float16 or bfloat16.
        scales: One scale, or one for each index of the axis ``along``.
        zero_points: Zero points of the same shape, or None.
        along: The axis that ``scales`` belongs to.
        destination: What to store: INT8, UINT8, INT32 or INT4 of ``graph_quant.destination``; on Ascend 950 also E4M3,
            E5M2 or HIFLOAT8.
        divide: Divide by the scale instead of multiplying.

    Returns:
        The integers, contiguous; int4 packed into int32 with 1/8 of the last dimension.

    Examples:
        >>> quantize(torch.tensor([0.5, -1.0]), torch.tensor([2.0]), None)
        tensor([ 1, -2], dtype=torch.int8)
    """
    scales = along_axis(scales, x.dim(), along)
    zero_points = None if zero_points is None else along_axis(zero_points, x.dim(), along)
    if torch.compiler.is_compiling() or x.numel() == 0:
        return affine(x, scales, zero_points, destination, divide=divide)
    rows, width = x.numel() // x.size(-1), x.size(-1)
    matrix = x.reshape(rows, width)
    scale_rows = _as_rows(scales, x)
    offset_rows = None if zero_points is None else _as_rows(zero_points, x)

    def block(part: slice) -> tuple[torch.Tensor]:
        offset = None if offset_rows is None else _pick(offset_rows, part)
        return (affine(matrix[part], _pick(scale_rows, part), offset, destination, divide=divide),)

    (quantised,) = by_row_blocks(block, rows, width)
    return quantised.reshape(destination.stored_shape(x.shape))


def dequantise(
    y: torch.Tensor,
    scales: torch.Tensor,
    zero_points: torch.Tensor | None,
    axis: int = -1,
    *,
    divide: bool = False,
    packed: bool | None = None,
) -> torch.Tensor:
    """Restore the values that ``quantize`` stored, up to rounding and saturation.

    Args:
        y: The result of ``quantize``.
        scales: The scales of that call.
        zero_points: The zero points of that call.
        axis: The axis that ``scales`` belongs to.
        divide: Whether ``quantize`` divided by the scale.
        packed: Whether int32 holds packed int4; None decides by the dtype, False reads a qint32 result.

    Returns:
        float32 of the shape before packing.
    """
    values = elements(y, packed=packed)
    if zero_points is not None:
        values = values - along_axis(zero_points, y.dim(), axis).float()
    scale = along_axis(scales, y.dim(), axis).float()
    return values * scale if divide else values / scale


def _as_rows(parameter: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """``parameter`` for ``x`` seen as a matrix: (1, width) or (1, 1) where rows share it, else (rows, 1)."""
    if parameter.numel() == parameter.size(-1):
        return parameter.reshape(1, -1)
    return parameter.expand(*x.shape[:-1], 1).reshape(-1, 1)


def _pick(rows: torch.Tensor, part: slice) -> torch.Tensor:
    return rows if rows.size(0) == 1 else rows[part]


@kernel("AscendQuantV2", flops=3, exact=True, same=("x", "scale", "offset"), packs=True, chips=A2_A3_950)
def ascend_quant(
    x: torch.Tensor, scale: torch.Tensor, offset: torch.Tensor | None = None, *, dst_type: int = 2, axis: int = -1
) -> torch.Tensor:
    """Compute the node; ``scale`` is one element, one for each position of ``axis``, or shaped to broadcast."""
    along = -2 if axis == -2 or (axis >= 0 and axis == x.dim() - 2) else -1
    flat = None if offset is None else offset.reshape(-1)
    return quantize(x, scale.reshape(-1), flat, along, element_destination(dst_type))


# The attribute is the name of a torch dtype.
_DESTINATIONS = {str(dtype): output for output in (INT8, UINT8, INT32, *NARROW) for dtype in output.spellings}
_DESTINATIONS["torch.hifloat8"] = HIFLOAT8


@kernel("Quantize", flops=3, exact=True, chips=A2_A3_950)
def quantize_node(
    x: torch.Tensor, scales: torch.Tensor, zero_points: torch.Tensor | None = None, *, dtype: str, axis: int = 1
) -> torch.Tensor:
    return quantize(x, scales, zero_points, axis, _DESTINATIONS[dtype], divide=True)
