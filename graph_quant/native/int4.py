"""int4: unpacking, int4.c, and products by few rows, int4_product.c."""

from __future__ import annotations

from struct import Struct

from torch import Tensor, int8, int32

from .library import IN_THREADS, empty_strided, function, threads_for

# ``struct elements`` of int4.c: packed, y; bytes.
_ELEMENTS = Struct("2Pn")

# ``struct product`` of int4_product.c: x, w, out; stride of w, rows, columns, depth of a group, groups.
_PRODUCT = Struct("3P5n")
_MOST_ROWS = 16  # beyond them unpacking the weight once costs less

_unpack = function("graph_quant_int4")
_product = function("graph_quant_int4_product")


def can_unpack_int4(packed: Tensor) -> bool:
    """Whether ``unpack_int4`` takes this tensor; fake tensors may be passed."""
    return _unpack is not None and packed.dtype == int32 and packed.is_cpu and packed.is_contiguous()


def unpack_int4(packed: Tensor) -> Tensor:
    """Unpack int32 that ``can_unpack_int4`` accepts: int8 with eight times the last dimension."""
    assert _unpack is not None
    elements = packed.numel() * 8
    y = empty_strided((elements,), (1,), int8)
    _unpack(_ELEMENTS.pack(packed.data_ptr(), y.data_ptr(), elements // 2), IN_THREADS, 1)
    return y.view(*packed.shape[:-1], packed.size(-1) * 8)


def can_multiply_int4(x: Tensor, weight: Tensor, groups: int) -> bool:
    """Whether ``int4_product`` takes int8 rows and a weight packed along n in int32."""
    return (
        _product is not None
        and x.dtype == int8
        and weight.dtype == int32
        and x.is_cpu
        and weight.is_cpu
        and x.dim() == weight.dim() == 2
        and 0 < x.size(0) <= _MOST_ROWS
        and weight.stride(1) == 1
        and weight.numel() > 0
        and x.size(1) == weight.size(0)
        and x.size(1) % (4 * groups) == 0
    )


def int4_product(x: Tensor, weight: Tensor, groups: int) -> Tensor:
    """Return the sums of products in int32, (group, row, column), of operands that ``can_multiply_int4`` accepts."""
    assert _product is not None
    x = x.contiguous()
    (rows, depth), columns = x.shape, weight.size(1) * 8
    out = empty_strided((groups, rows, columns), (rows * columns, columns, 1), int32)
    sizes = weight.stride(0) * 4, rows, columns, depth // groups, groups
    arguments = _PRODUCT.pack(x.data_ptr(), weight.data_ptr(), out.data_ptr(), *sizes)
    if _product(arguments, IN_THREADS, threads_for(rows * columns * depth)):
        raise MemoryError(f"the product of int8 rows ({rows}, {depth}) and int4 columns ({depth}, {columns})")
    return out
