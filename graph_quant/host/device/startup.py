"""The start of the device: without torch_npu's remarks about a missing CANN, and with a plain word on unknown chips."""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

_EXPECTED = ("require processing for 32 padding size",)
CHIP = "GRAPH_QUANT_SOC"
_QUEUE = "TASK_QUEUE_ENABLE"


def keep_quiet() -> None:
    """Make the first allocation, which comments on the CANN version, part of the device's quiet start."""
    import torch_npu.npu as device

    start = device._lazy_init

    def quiet_start() -> None:
        if device._initialized or device._is_internal_in_bad_fork:
            start()
            return
        with _expected_lines_dropped(), _known_chips_named(), _without_queue():
            start()
            if device._initialized:
                torch.empty(1, device="npu")
                device.empty_cache()  # the process may yet choose another device

    device._lazy_init = quiet_start


@contextmanager
def _without_queue() -> Iterator[None]:
    """Let torch_npu, which asks once, know that nothing is queued to its own thread, whatever a script wants since."""
    wanted = os.environ.get(_QUEUE)
    os.environ[_QUEUE] = "0"
    try:
        yield
    finally:
        if wanted is not None:
            os.environ[_QUEUE] = wanted


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
    """Return the names that the installed torch_npu compares with; it tells them nowhere but in its library."""
    import torch_npu

    library = Path(torch_npu.__file__).parent / "lib" / "libtorch_npu.so"
    names = set(re.findall(rb"\0(Ascend\d{2,3}[A-Za-z0-9_]+)(?=\0)", library.read_bytes()))
    return sorted(name.decode() for name in names)


@contextmanager
def _expected_lines_dropped() -> Iterator[None]:
    """Hold back what C++ code writes to standard error, then pass on all but the expected lines."""
    try:
        kept = os.dup(2)
    except OSError:  # closed: nobody listens
        yield
        return
    if sys.stderr is not None:
        sys.stderr.flush()
    held = os.memfd_create("graph_quant")  # a temporary file would need a folder that can be written
    os.dup2(held, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.lseek(held, 0, os.SEEK_SET)
        with os.fdopen(held, errors="replace") as written:
            lines = [line for line in written if not any(expected in line for expected in _EXPECTED)]
        if lines:
            os.write(2, "".join(lines).encode())
