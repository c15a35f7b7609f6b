"""The Python module ``acl`` of CANN, over the runtime of the host NPU: devices, memory, streams and events.

Functions have the arguments and results of CANN's: the results of the C function, then its error code. What public
code does not use is refused by name. Where CANN's own module can be imported, this one is not.
"""

from __future__ import annotations

from typing import Any

from graph_quant.host.acl import rt, util
from graph_quant.host.acl.binding import missing, runtime

__all__ = ["finalize", "get_recent_err_msg", "get_soc_name", "init", "rt", "util"]


def init(config: str | None = None) -> int:
    """Initialise the runtime; calling it again does no harm."""
    return int(runtime.aclInit(None if config is None else config.encode()))


def finalize() -> int:
    """End the use of the runtime."""
    return int(runtime.aclFinalize())


def get_soc_name() -> str:
    """Return the name of the chip."""
    return runtime.aclrtGetSocName().decode()


def get_recent_err_msg() -> str | None:
    """Return why the last call of this thread failed."""
    message: bytes | None = runtime.aclGetRecentErrMsg()
    return message.decode() if message else None


def __getattr__(name: str) -> Any:
    raise missing(f"acl.{name}")
