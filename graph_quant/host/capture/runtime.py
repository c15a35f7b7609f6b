"""The C runtime's side of a capture: which stream is captured, and where on its tape a kernel stands."""

import ctypes
from collections.abc import Callable
from typing import Any, NamedTuple

import torch_npu

from ..recording import runtime

# What a kernel on a stream is to do (host_stream_state).
RUNS, CAPTURED, UPDATES, REFUSED = range(4)

library = runtime
library.host_stream_state.argtypes = [ctypes.c_void_p]
library.host_in_branch.argtypes = [ctypes.c_void_p]
library.host_abandon_capture.argtypes = [ctypes.c_void_p]
library.host_invalidate.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
library.host_may_block.argtypes = [ctypes.c_char_p]
library.host_failed.argtypes = [ctypes.c_char_p]
library.aclGetRecentErrMsg.restype = ctypes.c_char_p


class Place(NamedTuple):
    """Where a kernel stands: of which captured graph, and the how-manieth of its kernels it is."""

    model: int
    kernel: int


class _Place(ctypes.Structure):
    _fields_ = (("model", ctypes.c_uint32), ("kernel", ctypes.c_uint32))


for _note in (library.host_capture_kernel, library.host_update_kernel):
    _note.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(_Place)]


def current_stream() -> int:
    """Return the handle of this thread's current stream."""
    handle: int = torch_npu._C._npu_getCurrentRawStreamNoWait(torch_npu._C._npu_getDevice())
    return handle


def state_of(stream: int) -> int:
    """Return what a kernel on a stream is to do; raise if nothing may be done on it."""
    state: int = library.host_stream_state(stream)
    if state == REFUSED:
        raise RuntimeError(recent_error())
    return state


def in_branch(stream: int) -> bool:
    """Tell whether a captured stream belongs to a branch of a condition."""
    return bool(library.host_in_branch(stream))


def note_kernel(stream: int, state: int, name: str, detail: str) -> Place:
    """Put a kernel on the tape of the stream's capture, or in the place of the one that it updates."""
    place = _Place()
    note = library.host_capture_kernel if state == CAPTURED else library.host_update_kernel
    if note(stream, name.encode(), detail.encode(), place) != 0:
        raise RuntimeError(recent_error())
    return Place(place.model, place.kernel)


def not_permitted(operator: str, why: str) -> RuntimeError:
    """Return the error of an operator that a captured stream cannot have; the capture is lost."""
    library.host_invalidate(current_stream(), operator.encode())
    return RuntimeError(f"{operator}: operation not permitted when stream is capturing: {why}")


def check_may_block(operator: str) -> None:
    """Raise if a capture, of this thread or of another, forbids calls that wait for the device."""
    if library.host_may_block(operator.encode()) != 0:
        raise RuntimeError(recent_error())


def abandon_capture() -> None:
    """End what the current stream is captured into, if it still is."""
    library.host_abandon_capture(current_stream())


def recent_error() -> str:
    """Return why the last call of the runtime failed."""
    message: bytes = library.aclGetRecentErrMsg()
    return message.decode(errors="replace")


_hooks: list[Any] = []  # the runtime calls them as long as the process lives


def serve(replay: Callable[[int, int, int], int], forget: Callable[[int], None]) -> None:
    """Say who runs the kernels of a captured graph, and who drops them with it."""
    on_replay = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_uint32)(replay)
    on_forget = ctypes.CFUNCTYPE(None, ctypes.c_uint32)(forget)
    _hooks.extend((on_replay, on_forget))
    library.host_on_replay(on_replay)
    library.host_on_forget(on_forget)


def stop_serving() -> None:
    """Take the hooks back: graphs may outlive the interpreter."""
    library.host_on_forget(None)
