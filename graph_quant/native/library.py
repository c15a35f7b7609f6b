"""The library of native kernels, where it was built, and the threads that it uses."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

import torch

PATH = Path(__file__).with_name("libgraph_quant_native.so")
# The library's numbers of torch's dtypes.
KINDS = {torch.int32: 0, torch.bfloat16: 1, torch.float16: 2, torch.float32: 3}
# Below this number of products, starting a second thread takes longer than it saves.
_MIN_PRODUCTS_FOR_THREADS = 1 << 22


def _load() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(str(PATH))
    except OSError:
        return None


def _find_gomp_parallel() -> ctypes.c_void_p | None:
    """Return the function by which torch starts its threads, so that they are shared; None if torch has another."""
    try:
        return ctypes.cast(ctypes.CDLL(f"{torch.__path__[0]}/lib/libtorch_cpu.so").GOMP_parallel, ctypes.c_void_p)
    except (OSError, AttributeError):
        return None


# Allocates a CPU tensor by size, strides and dtype, in a third of the time of torch.empty_strided.
empty_strided = torch._C._dynamo.guards._empty_strided_cpu  # type: ignore[attr-defined]
_library = _load()
IN_THREADS = _find_gomp_parallel() if _library is not None else None


def function(name: str) -> Callable[..., int] | None:
    """Return a kernel, which takes a struct and threads; None if it is not built, or not for this processor."""
    kernel = getattr(_library, name, None)
    if kernel is None or not getattr(_library, f"{name}_serves")():
        return None
    kernel.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int]
    return kernel  # type: ignore[no-any-return]


def threads_for(products: int) -> int:
    """Return the number of threads for a number of products."""
    return torch.get_num_threads() if products >= _MIN_PRODUCTS_FOR_THREADS else 1
