"""Keeps torch_npu's remarks about a missing CANN off the screen; everything else it says is shown."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import torch

_EXPECTED = ("require processing for 32 padding size",)


def keep_quiet() -> None:
    """Make the first allocation, which comments on the CANN version, part of the device's quiet start."""
    import torch_npu.npu as device

    start = device._lazy_init

    def quiet_start() -> None:
        if device._initialized or device._is_internal_in_bad_fork:
            start()
            return
        with _expected_lines_dropped():
            start()
            if device._initialized:
                torch.empty(1, device="npu")

    device._lazy_init = quiet_start


@contextmanager
def _expected_lines_dropped() -> Iterator[None]:
    """Hold back what C++ code writes to standard error, then pass on all but the expected lines."""
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            held.seek(0)
            lines = held.read().decode(errors="replace").splitlines(keepends=True)
            os.write(2, "".join(line for line in lines if not any(e in line for e in _EXPECTED)).encode())
