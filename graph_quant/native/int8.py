"""The exact product of int8 matrices: int8.c."""

from __future__ import annotations

from struct import Struct

import torch

from .library import IN_THREADS, KINDS, empty_strided, function, threads_for

# ``struct product`` of int8.c: x1, x2; their strides, rows, columns, depth; out, scale, row_scale, bias; output,
# scale_step. Packing takes a third of the time of a ctypes.Structure.
_PRODUCT = Struct("2P5n4P2i")

_product = function("graph_quant_int8_product")
IS_SUPPORTED = _product is not None


def can_multiply_int8(x1: torch.Tensor, x2: torch.Tensor) -> bool:
    """Whether ``int8_product`` takes these matrices; fake tensors may be passed."""
    return (
        IS_SUPPORTED
        and x1.dim() == x2.dim() == 2
        and x1.dtype == x2.dtype == torch.int8
        and x1.is_cpu
        and x2.is_cpu
        and x1.stride(1) == 1
        and x2.stride(0) == 1
    )


def int8_product(
    x1: torch.Tensor,
    x2: torch.Tensor,
    dtype: torch.dtype = torch.int32,
    scale: torch.Tensor | None = None,
    row_scale: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return ``x1 @ x2`` of CPU matrices that ``can_multiply_int8`` accepts: in int32, or rescaled to ``dtype``.

    ``scale``, of one element or one for each column, ``row_scale`` and ``bias`` are float32 and contiguous.
    """
    assert _product is not None
    (rows, depth), columns = x1.shape, x2.size(1)
    out = empty_strided((rows, columns), (columns, 1), dtype)
    arguments = _PRODUCT.pack(
        x1.data_ptr(),
        x2.data_ptr(),
        x1.stride(0),
        x2.stride(1),
        rows,
        columns,
        depth,
        out.data_ptr(),
        0 if scale is None else scale.data_ptr(),
        0 if row_scale is None else row_scale.data_ptr(),
        0 if bias is None else bias.data_ptr(),
        KINDS[dtype],
        scale is not None and scale.numel() > 1,
    )
    if _product(arguments, IN_THREADS, threads_for(rows * columns * depth)):
        raise MemoryError(f"the product of int8 matrices ({rows}, {depth}) and ({depth}, {columns})")
    return out
