"""The command-line tool of an NPU, by which test suites ask whether there is one."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from . import preload

FOLDER = Path(__file__).with_name("bin")


def add_to_path() -> None:
    """Add `npu-smi` to PATH where the host NPU is used and there is none."""
    if preload.choose() == preload.HOST and shutil.which("npu-smi") is None:
        os.environ["PATH"] = os.pathsep.join(filter(None, (os.environ.get("PATH"), str(FOLDER))))
