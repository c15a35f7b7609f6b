"""Machine code of the package's own, where it was built and the processor has the instructions that it is made of."""

from __future__ import annotations

import ctypes
from pathlib import Path

import torch

LIBRARY = Path(__file__).with_name("libgraph_quant_native.so")
_OUTPUTS = {torch.int32: 0, torch.bfloat16: 1, torch.float16: 2}
# Below so many products a second thread takes longer to wake than to help.
_FOR_THREADS = 1 << 22


class _Product(ctypes.Structure):
    """``struct product`` of int8.c."""

    _fields_ = (
        ("x1", ctypes.c_void_p),
        ("x2", ctypes.c_void_p),
        ("x1_stride", ctypes.c_ssize_t),
        ("x2_stride", ctypes.c_ssize_t),
        ("rows", ctypes.c_ssize_t),
        ("columns", ctypes.c_ssize_t),
        ("depth", ctypes.c_ssize_t),
        ("out", ctypes.c_void_p),
        ("scale", ctypes.c_void_p),
        ("row_scale", ctypes.c_void_p),
        ("bias", ctypes.c_void_p),
        ("output", ctypes.c_int32),
        ("scale_step", ctypes.c_int32),
    )


def _loaded() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL(str(LIBRARY))
    except OSError:
        return None
    library.graph_quant_int8_product.argtypes = [ctypes.POINTER(_Product), ctypes.c_void_p, ctypes.c_int]
    return library if library.graph_quant_int8_serves() else None


def _torchs_threads() -> ctypes.c_void_p | None:
    """The function by which torch starts its own threads, so that there are no others; None where it has no such."""
    try:
        return ctypes.cast(ctypes.CDLL(f"{torch.__path__[0]}/lib/libtorch_cpu.so").GOMP_parallel, ctypes.c_void_p)
    except (OSError, AttributeError):
        return None


_library = _loaded()
_threads = _torchs_threads() if _library is not None else None
SERVES = _library is not None


def takes(x1: torch.Tensor, x2: torch.Tensor) -> bool:
    """Whether ``int8_product`` multiplies these; they may be known by size and strides alone."""
    return (
        SERVES
        and x1.dim() == x2.dim() == 2
        and x1.dtype == x2.dtype == torch.int8
        and x1.device.type == x2.device.type == "cpu"
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
    """``x1 @ x2`` of matrices of the CPU that ``takes`` says yes to: in int32, or rescaled in float32 to ``dtype``.

    ``scale``, of one element or one for each column, ``row_scale`` and ``bias`` are float32 and contiguous.
    """
    assert _library is not None
    rows, depth, columns = *x1.shape, x2.size(1)
    out = x1.new_empty((rows, columns), dtype=dtype)
    given = _Product(
        x1.data_ptr(),
        x2.data_ptr(),
        x1.stride(0),
        x2.stride(1),
        rows,
        columns,
        depth,
        out.data_ptr(),
        None if scale is None else scale.data_ptr(),
        None if row_scale is None else row_scale.data_ptr(),
        None if bias is None else bias.data_ptr(),
        _OUTPUTS[dtype],
        scale is not None and scale.numel() > 1,
    )
    threads = torch.get_num_threads() if rows * columns * depth >= _FOR_THREADS else 1
    if _library.graph_quant_int8_product(given, _threads, threads):
        raise MemoryError(f"the product of int8 matrices ({rows}, {depth}) and ({depth}, {columns})")
    return out
