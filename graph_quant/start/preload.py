"""Loads the host NPU under CANN's library names, before torch_npu looks for them.

Standard library only, and as little of it as possible: this runs at interpreter start where
`graph-quant enable` was used.
"""

from __future__ import annotations

import os

from ..host.library import ALIASES, DIRECTORY, RUNTIME
from ..releases import cann

SWITCH = "GRAPH_QUANT_HOST"
DEVICES = "GRAPH_QUANT_DEVICES"
MEMORY = "GRAPH_QUANT_MEMORY"
SATURATE = "INF_NAN_MODE_FORCE_DISABLE"
_MAX_DEVICES = 64
# The driver's library, which CANN's runtime loads: an image to build software has CANN without it.
_DRIVER = "libascend_hal.so"


# The runtime behind torch_npu in this process.
HOST, CANN, NONE = "host", "CANN", "none"


class HostNpuError(RuntimeError):
    """The host NPU cannot be used as requested."""


_chosen: str | None = None


def switch() -> str:
    """Return the setting of GRAPH_QUANT_HOST: auto, on or off."""
    setting = os.environ.get(SWITCH, "auto").strip().lower() or "auto"
    if setting not in ("auto", "on", "off"):
        raise HostNpuError(f"{SWITCH} must be auto, on or off, got {setting!r}")
    return setting


def choose() -> str:
    """Decide once for this process the runtime of torch_npu: HOST, CANN or NONE; load the host NPU if it is HOST."""
    global _chosen
    if _chosen is None:
        setting = switch()
        if setting != "on" and cann_loads():
            _chosen = CANN
        elif setting == "off":
            _chosen = NONE
        else:
            _load()
            _chosen = HOST
    return _chosen


def chosen() -> str | None:
    """Return what `choose` decided, or None while torch_npu has not been needed."""
    return _chosen


def cann_loads() -> bool:
    """Whether the dynamic loader finds a driver and a CANN runtime.

    The driver comes first: a runtime that is loaded already would be torch_npu's, and cannot work without a driver.
    """
    return _try_load(_DRIVER) is None and _try_load(RUNTIME) is None


def explain() -> str:
    """Return the runtime that was chosen, and why, in words."""
    if _chosen != HOST:
        return str(_chosen)
    if switch() == "on":
        return f"host NPU ({SWITCH}=on)"
    folder = _cann_folder()
    if folder is None:
        return "host NPU (no CANN on this machine)"
    return f"host NPU (CANN is in {folder}, but no driver: {_try_load(_DRIVER) or f'{RUNTIME} does not load'})"


def _cann_folder() -> str | None:
    """The first folder of the loader's search path with a CANN runtime."""
    for folder in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep):
        if folder and os.path.exists(os.path.join(folder, RUNTIME)):  # noqa: PTH110, PTH118
            return folder
    return None


def is_built() -> bool:
    """Whether the package has its libraries (it has unless it runs from sources that were not built)."""
    return all(os.path.exists(os.path.join(DIRECTORY, name)) for name in (RUNTIME, *ALIASES))  # noqa: PTH110, PTH118


def _check_devices() -> None:
    """Refuse a number of devices that the runtime cannot provide."""
    requested = os.environ.get(DEVICES, "") or "1"
    if not requested.isdecimal() or not 1 <= int(requested) <= _MAX_DEVICES:
        raise HostNpuError(f"{DEVICES} must be a number from 1 to {_MAX_DEVICES}, got {requested!r}")


def _check_memory() -> None:
    """Refuse a size of the device that the runtime does not read."""
    requested = os.environ.get(MEMORY, "")
    number = requested
    for unit in ("", "KiB", "MiB", "GiB", "TiB"):
        if unit and requested.endswith(unit):
            number = requested[: -len(unit)]
    if requested and not (number.isascii() and number.isdecimal() and int(number)):
        raise HostNpuError(f"{MEMORY} must be a size such as 16GiB, in bytes, KiB, MiB, GiB or TiB, got {requested!r}")


def _check_overflow() -> None:
    """Refuse saturation instead of infinities and NaN: torch_npu does not check whether the device has it."""
    if os.environ.get(SATURATE, "") not in ("", "0"):
        raise HostNpuError(f"{SATURATE} must not be set: the host NPU computes infinities and NaN, as A2 and A3 do")


def _check_cann() -> str:
    """Return the version of CANN to report, as three numbers; refuse what is no version."""
    try:
        return cann.version()
    except ValueError as error:
        raise HostNpuError(str(error)) from None


def _load() -> None:
    _check_devices()
    _check_memory()
    _check_overflow()
    version = _check_cann()
    # Tasks in torch_npu's queue would run out of order with what the host computes at once.
    os.environ["TASK_QUEUE_ENABLE"] = "0"
    for name in (RUNTIME, *ALIASES):
        problem = _try_load(os.path.join(DIRECTORY, name))  # noqa: PTH118
        if problem is not None:
            raise HostNpuError(
                f"the host NPU is not built into this installation of graph-quant ({problem}); "
                "reinstall it with `pip install .` or, in a clone, run `make setup`"
            )
    _report_cann(version)


def _report_cann(version: str) -> None:
    """Set the version of CANN that the runtime reports."""
    import _ctypes

    handle = _ctypes.dlopen(os.path.join(DIRECTORY, RUNTIME), os.RTLD_GLOBAL | os.RTLD_NOW)  # noqa: PTH118
    _ctypes.call_function(_ctypes.dlsym(handle, "host_set_cann_version"), (version.encode(),))


def _try_load(path: str) -> str | None:
    """Load a library into the global scope of this process; return the error message, or None."""
    import _ctypes  # ctypes itself would take longer than all the rest

    try:
        _ctypes.dlopen(path, os.RTLD_GLOBAL | os.RTLD_NOW)
    except OSError as error:
        return str(error)
    return None
