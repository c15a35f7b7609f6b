"""``acl.util``: addresses of Python's and NumPy's memory."""

from __future__ import annotations

import ctypes
from typing import Any

from graph_quant.host.acl.binding import missing


def bytes_to_ptr(data: bytes) -> int:
    """Return the address of bytes, which must outlive its use."""
    return ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value or 0


def ptr_to_bytes(ptr: int, size: int) -> bytes:
    """Return a copy of memory as bytes."""
    return ctypes.string_at(ptr, size)


def numpy_to_ptr(array: Any) -> int:
    """Return the address of an array, which must outlive its use."""
    return int(array.ctypes.data)


def ptr_to_numpy(ptr: int, shape: tuple[int, ...], dtype: int) -> Any:
    """Return an array over memory; ``dtype`` is NumPy's number of a type, such as 11 for float32."""
    import numpy as np

    kind = next((np.dtype(code) for code in np.typecodes["All"] if np.dtype(code).num == dtype), None)
    if kind is None:
        raise ValueError(f"acl.util.ptr_to_numpy: dtype must be NumPy's number of a type, got {dtype}")
    size = kind.itemsize
    for length in shape:
        size *= length
    memory: Any = (ctypes.c_char * size).from_address(ptr)
    return np.frombuffer(memory, kind).reshape(shape)


def __getattr__(name: str) -> Any:
    raise missing(f"acl.util.{name}")
