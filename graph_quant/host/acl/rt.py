"""``acl.rt``: devices, contexts, streams, events and memory."""

from __future__ import annotations

import ctypes
from typing import Any

from graph_quant.host.acl.binding import INVALID_PARAMETER, call, call_for_address, missing, runtime

_HOST = 1  # ACL_HOST: the process runs on the host of the device, not on the device itself


def get_device_count() -> tuple[int, int]:
    """Return the number of devices, and the error code."""
    count = ctypes.c_uint32()
    error = runtime.aclrtGetDeviceCount(ctypes.byref(count))
    return count.value, int(error)


def set_device(device_id: int) -> int:
    """Use a device in this thread."""
    return call("aclrtSetDevice", device_id)


def reset_device(device_id: int) -> int:
    """End the use of a device."""
    return call("aclrtResetDevice", device_id)


def get_device() -> tuple[int, int]:
    """Return the device of this thread, and the error code."""
    device = ctypes.c_int32()
    error = runtime.aclrtGetDevice(ctypes.byref(device))
    return device.value, int(error)


def synchronize_device() -> int:
    """Return when the device has done all tasks."""
    return call("aclrtSynchronizeDevice")


def get_run_mode() -> tuple[int, int]:
    """Return that the process runs beside the device (ACL_HOST), and the error code."""
    return _HOST, 0


def create_context(device_id: int) -> tuple[int, int]:
    """Return the context of a device, which becomes that of this thread, and the error code."""
    error = set_device(device_id)
    return (0, error) if error else get_context()


def destroy_context(context: int) -> int:  # noqa: ARG001
    """End the use of a context: that of a device lasts as long as the process."""
    return 0


def set_context(context: int) -> int:
    """Use a context in this thread."""
    return call("aclrtSetCurrentContext", context)


def get_context() -> tuple[int, int]:
    """Return the context of this thread, and the error code."""
    return call_for_address("aclrtGetCurrentContext")


def create_stream() -> tuple[int, int]:
    """Return a new stream, and the error code."""
    return call_for_address("aclrtCreateStream")


def destroy_stream(stream: int) -> int:
    """Delete a stream."""
    return call("aclrtDestroyStream", stream)


def synchronize_stream(stream: int) -> int:
    """Return when a stream has done its tasks."""
    return call("aclrtSynchronizeStream", stream)


def create_event() -> tuple[int, int]:
    """Return a new event that can be waited for and timed, and the error code."""
    can_be_timed_and_waited_for = 0x9  # ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE
    return call_for_address("aclrtCreateEventExWithFlag", can_be_timed_and_waited_for)


def destroy_event(event: int) -> int:
    """Delete an event."""
    return call("aclrtDestroyEvent", event)


def record_event(event: int, stream: int) -> int:
    """Record an event on a stream."""
    return call("aclrtRecordEvent", event, stream)


def stream_wait_event(stream: int, event: int) -> int:
    """Let a stream wait for an event."""
    return call("aclrtStreamWaitEvent", stream, event)


def synchronize_event(event: int) -> int:
    """Return when an event has been reached."""
    return call("aclrtSynchronizeEvent", event)


def event_elapsed_time(start: int, end: int) -> tuple[float, int]:
    """Return the milliseconds between two events, and the error code."""
    milliseconds = ctypes.c_float()
    handles = ctypes.c_void_p(start), ctypes.c_void_p(end)
    error = runtime.aclrtEventElapsedTime(ctypes.byref(milliseconds), *handles)
    return milliseconds.value, int(error)


def malloc(size: int, policy: int) -> tuple[int, int]:
    """Allocate memory of the device; return its address and the error code."""
    return call_for_address("aclrtMalloc", size, policy) if size else (0, INVALID_PARAMETER)


def free(dev_ptr: int) -> int:
    """Free memory of the device."""
    return call("aclrtFree", dev_ptr)


def malloc_host(size: int) -> tuple[int, int]:
    """Allocate memory of the host; return its address and the error code."""
    return call_for_address("aclrtMallocHost", size) if size else (0, INVALID_PARAMETER)


def free_host(host_ptr: int) -> int:
    """Free memory of the host."""
    return call("aclrtFreeHost", host_ptr)


def memset(dev_ptr: int, max_count: int, value: int, count: int) -> int:
    """Set bytes of memory."""
    return call("aclrtMemset", dev_ptr, max_count, value, count)


def memset_async(dev_ptr: int, max_count: int, value: int, count: int, stream: int) -> int:
    """Set bytes of memory on a stream."""
    return call("aclrtMemsetAsync", dev_ptr, max_count, value, count, stream)


def memcpy(dst: int, dest_max: int, src: int, count: int, kind: int) -> int:
    """Copy memory between host and device, or within one."""
    return call("aclrtMemcpy", dst, dest_max, src, count, kind)


def memcpy_async(dst: int, dest_max: int, src: int, count: int, kind: int, stream: int) -> int:
    """Copy memory on a stream."""
    return call("aclrtMemcpyAsync", dst, dest_max, src, count, kind, stream)


def get_mem_info(attr: int) -> tuple[int, int, int]:
    """Return the free and all bytes of the device, and the error code."""
    available, total = ctypes.c_size_t(), ctypes.c_size_t()
    error = runtime.aclrtGetMemInfo(attr, ctypes.byref(available), ctypes.byref(total))
    return available.value, total.value, int(error)


def __getattr__(name: str) -> Any:
    raise missing(f"acl.rt.{name}")
