"""Products of half-precision matrices, accumulated in float32 and rounded once: half.c."""

from __future__ import annotations

from struct import Struct

from torch import Tensor

from .library import IN_THREADS, KINDS, function, threads_for

# ``struct product`` of half.c: x1, x2, out, bias; strides of batches, rows, depth and columns; sizes; dtypes;
# whether dot products are used.
_PRODUCT = Struct("4P12n3i")

_product = function("graph_quant_half_product")
CAN_MULTIPLY_HALVES = _product is not None


def half_product(x1: Tensor, x2: Tensor, out: Tensor, bias: Tensor | None = None, uses_dots: bool = True) -> None:
    """Write ``x1 @ x2 + bias`` of CPU tensors (batch, row, depth) and (batch, depth, column) into ``out``.

    Both operands have the same half-precision dtype, ``out``, of any strides, has that one or float32. The bias is
    float32 and contiguous.
    """
    assert _product is not None
    x1 = x1 if x1.stride(2) == 1 or x1.size(2) <= 1 else x1.contiguous()
    x2 = x2 if 1 in x2.stride()[1:] or x2.numel() <= 1 else x2.contiguous()
    (batches, rows, depth), columns = x1.shape, x2.size(2)
    arguments = _PRODUCT.pack(
        x1.data_ptr(),
        x2.data_ptr(),
        out.data_ptr(),
        0 if bias is None else bias.data_ptr(),
        *x1.stride()[:2],
        *x2.stride(),
        *out.stride(),
        batches,
        rows,
        columns,
        depth,
        KINDS[x1.dtype],
        KINDS[out.dtype],
        uses_dots,
    )
    if _product(arguments, IN_THREADS, threads_for(batches * rows * columns * depth)):
        raise MemoryError(f"the product of matrices ({rows}, {depth}) and ({depth}, {columns})")
