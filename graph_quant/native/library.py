"""The library of machine code, where it was built, and the threads that it works in."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

import torch

PATH = Path(__file__).with_name("libgraph_quant_native.so")
# How the library calls the dtypes of torch.
KINDS = {torch.int32: 0, torch.bfloat16: 1, torch.float16: 2, torch.float32: 3}
# Below so many products a second thread takes longer to wake than to help.
_FOR_THREADS = 1 << 22


def _loaded() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(str(PATH))
    except OSError:
        return None


def _torchs_threads() -> ctypes.c_void_p | None:
    """The function by which torch starts its own threads, so that there are no others; None where it has no such."""
    try:
        return ctypes.cast(ctypes.CDLL(f"{torch.__path__[0]}/lib/libtorch_cpu.so").GOMP_parallel, ctypes.c_void_p)
    except (OSError, AttributeError):
        return None


# Room in the CPU's memory, by size, strides and dtype: as torch.empty gives it, in a third of its time.
empty_strided = torch._C._dynamo.guards._empty_strided_cpu  # type: ignore[attr-defined]
_library = _loaded()
IN_THREADS = _torchs_threads() if _library is not None else None


def function(name: str) -> Callable[..., int] | None:
    """A function that is given a struct and threads; None where it is not built, or not for this processor."""
    found = getattr(_library, name, None)
    if found is None or not getattr(_library, f"{name}_serves")():
        return None
    found.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int]
    return found  # type: ignore[no-any-return]


def threads_for(products: int) -> int:
    """How many threads so many products are worth."""
    return torch.get_num_threads() if products >= _FOR_THREADS else 1
