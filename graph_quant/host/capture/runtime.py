"""The C runtime's side of a capture: which stream is captured, and the index of a kernel on its tape."""

import ctypes
from collections.abc import Callable
from typing import Any, NamedTuple

import torch_npu

from ...releases.alternatives import current_raw_stream
from ..recording import runtime

# What a kernel on a stream does (host_stream_state).
RUNS, CAPTURED, UPDATES, REFUSED = range(4)

library = runtime
_current_raw_stream = current_raw_stream()
library.host_stream_state.argtypes = [ctypes.c_void_p]
library.host_in_branch.argtypes = [ctypes.c_void_p]
library.host_abandon_capture.argtypes = [ctypes.c_void_p]
library.host_invalidate.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
library.host_may_block.argtypes = [ctypes.c_char_p]
library.host_failed.argtypes = [ctypes.c_char_p]
library.aclGetRecentErrMsg.restype = ctypes.c_char_p


class KernelId(NamedTuple):
    """A kernel: the id of its captured graph, and its index among the kernels."""

    model: int
    kernel: int


class _KernelId(ctypes.Structure):
    _fields_ = (("model", ctypes.c_uint32), ("kernel", ctypes.c_uint32))


for _function in (library.host_capture_kernel, library.host_update_kernel):
    _function.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(_KernelId)]


def current_stream() -> int:
    """Return the handle of this thread's current stream."""
    return _current_raw_stream(torch_npu._C._npu_getDevice())


def state_of(stream: int) -> int:
    """Return what a kernel on a stream does; raise if nothing may run on it."""
    state: int = library.host_stream_state(stream)
    if state == REFUSED:
        raise RuntimeError(recent_error())
    return state


def in_branch(stream: int) -> bool:
    """Whether a captured stream belongs to a branch of a condition."""
    return bool(library.host_in_branch(stream))


def record_kernel(stream: int, state: int, name: str, detail: str) -> KernelId:
    """Append a kernel to the tape of the stream's capture, or replace the one that it updates."""
    kernel_id = _KernelId()
    record = library.host_capture_kernel if state == CAPTURED else library.host_update_kernel
    if record(stream, name.encode(), detail.encode(), kernel_id) != 0:
        raise RuntimeError(recent_error())
    return KernelId(kernel_id.model, kernel_id.kernel)


def not_permitted(operator: str, why: str) -> RuntimeError:
    """Return the error of an operator that cannot be captured; it invalidates the capture."""
    library.host_invalidate(current_stream(), operator.encode())
    return RuntimeError(f"{operator}: operation not permitted when stream is capturing: {why}")


def check_may_block(operator: str) -> None:
    """Raise if a capture, of this thread or of another, forbids calls that wait for the device."""
    if library.host_may_block(operator.encode()) != 0:
        raise RuntimeError(recent_error())


def abandon_capture() -> None:
    """End the capture of the current stream, if it is still captured."""
    library.host_abandon_capture(current_stream())


def recent_error() -> str:
    """Return why the last call of the runtime failed."""
    message: bytes = library.aclGetRecentErrMsg()
    return message.decode(errors="replace")


_hooks: list[Any] = []  # the runtime calls them as long as the process lives


def set_hooks(replay: Callable[[int, int, int], int], forget: Callable[[int], None]) -> None:
    """Set the functions that run the kernels of a captured graph, and that drop them with it."""
    on_replay = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_uint32)(replay)
    on_forget = ctypes.CFUNCTYPE(None, ctypes.c_uint32)(forget)
    _hooks.extend((on_replay, on_forget))
    library.host_on_replay(on_replay)
    library.host_on_forget(on_forget)


def remove_hooks() -> None:
    """Remove the hook that drops kernels: graphs may outlive the interpreter."""
    library.host_on_forget(None)
