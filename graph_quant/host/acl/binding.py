"""The C functions behind ``acl``. Addresses and handles are integers in Python."""

from __future__ import annotations

import ctypes
import os

from graph_quant.host.library import DIRECTORY, RUNTIME

INVALID_PARAMETER = 100000  # ACL_ERROR_INVALID_PARAM

runtime = ctypes.CDLL(os.path.join(DIRECTORY, RUNTIME))  # noqa: PTH118
runtime.aclrtGetSocName.restype = ctypes.c_char_p
runtime.aclGetRecentErrMsg.restype = ctypes.c_char_p


def call(function: str, *arguments: int) -> int:
    """Call a function of integers, addresses and handles; return its error code."""
    return int(getattr(runtime, function)(*map(ctypes.c_size_t, arguments)))


def call_for_address(function: str, *arguments: int) -> tuple[int, int]:
    """Call a function that writes an address or a handle to its first argument; return it and the error code."""
    result = ctypes.c_void_p()
    error = getattr(runtime, function)(ctypes.byref(result), *map(ctypes.c_size_t, arguments))
    return result.value or 0, int(error)


def missing(name: str) -> AttributeError:
    """Return the error for a name that the host NPU does not answer."""
    return AttributeError(f"{name} is not available on the host NPU: it needs an NPU with CANN")
