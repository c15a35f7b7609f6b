"""Device initialisation without torch_npu's warnings about a missing CANN, and with a plain error for unknown chips."""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

_EXPECTED_LINES = ("require processing for 32 padding size",)
CHIP = "GRAPH_QUANT_SOC"
_QUEUE = "TASK_QUEUE_ENABLE"


def silence_initialization() -> None:
    """Make the first allocation, which warns about the CANN version, part of the silenced initialisation."""
    import torch_npu.npu as device

    initialize = device._lazy_init

    def silenced_init() -> None:
        if device._initialized or device._is_internal_in_bad_fork:
            initialize()
            return
        with _expected_lines_dropped(), _known_chips_named(), _without_queue():
            initialize()
            if device._initialized:
                torch.empty(1, device="npu")
                device.empty_cache()  # the process may yet choose another device

    device._lazy_init = silenced_init


@contextmanager
def _without_queue() -> Iterator[None]:
    """Disable torch_npu's task queue, a setting that it reads once; a value that a script has set is kept."""
    requested = os.environ.get(_QUEUE)
    os.environ[_QUEUE] = "0"
    try:
        yield
    finally:
        if requested is not None:
            os.environ[_QUEUE] = requested


@contextmanager
def _known_chips_named() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        if "Unsupported soc version" not in str(error):
            raise
        chip, known = os.environ.get(CHIP), ", ".join(_known_chips())
        raise RuntimeError(f"{CHIP} must name a chip that torch_npu knows, got {chip!r}; it knows {known}") from None


def _known_chips() -> list[str]:
    """Return the chip names that the installed torch_npu knows, read from its library, the only source of them."""
    import torch_npu

    library = Path(torch_npu.__file__).parent / "lib" / "libtorch_npu.so"
    names = set(re.findall(rb"\0(Ascend\d{2,3}[A-Za-z0-9_]+)(?=\0)", library.read_bytes()))
    return sorted(name.decode() for name in names)


@contextmanager
def _expected_lines_dropped() -> Iterator[None]:
    """Capture what C++ code writes to standard error, then pass on all but the expected lines."""
    try:
        original = os.dup(2)
    except OSError:  # standard error is closed
        yield
        return
    if sys.stderr is not None:
        sys.stderr.flush()
    captured = os.memfd_create("graph_quant")  # a temporary file would need a folder that can be written
    os.dup2(captured, 2)
    try:
        yield
    finally:
        os.dup2(original, 2)
        os.close(original)
        os.lseek(captured, 0, os.SEEK_SET)
        with os.fdopen(captured, errors="replace") as written:
            lines = [line for line in written if not any(expected in line for expected in _EXPECTED_LINES)]
        if lines:
            os.write(2, "".join(lines).encode())
