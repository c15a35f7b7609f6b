"""Triton kernels on the host NPU, by Triton's own interpreter.

Device memory is host memory: kernels read and write it in place. A launch on a captured stream is recorded. Blocks may
have any size, bfloat16 is computed as bfloat16, and the extensions of triton-ascend that kernels use are there.
"""

from __future__ import annotations

import os
import sys
from types import ModuleType

INTERPRET = "TRITON_INTERPRET"
_EXTENSION = "triton.language.extra.cann"


def choose_interpreter() -> None:
    """Let Triton, which is about to be imported, interpret kernels; a value that a script has set is kept."""
    os.environ.setdefault(INTERPRET, "1")


def start() -> None:
    """Extend Triton, which has just been imported."""
    if os.environ.get(INTERPRET) != "1":
        return
    from . import cann, driver, interpreter, launch, libdevice

    driver.register()
    interpreter.extend()
    launch.install()
    libdevice.extend()
    package = ModuleType(_EXTENSION, "Stand-in for triton-ascend's package of this name.")
    package.__path__ = []
    sys.modules[_EXTENSION] = package
    for name, module in (("extension", cann), ("libdevice", libdevice)):
        vars(package)[name] = sys.modules[f"{_EXTENSION}.{name}"] = module
    vars(sys.modules["triton.language.extra"])["cann"] = package
