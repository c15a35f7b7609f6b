"""Tasks of a forked process. Importing this module loads the libraries once for all processes."""

from __future__ import annotations

import gc
import os
import resource
import runpy
import signal
import sys
import time
import traceback
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import graph_quant  # noqa: F401  (before torch)
import torch
import torch._dynamo.config
import torch_npu  # noqa: F401
import torchair  # noqa: F401
from graph_quant.start import tools

from .outcome import TOO_LONG

if TYPE_CHECKING:
    import pytest

_Test = TypeVar("_Test")


def run_script(path: str, folder: str, printed: str, gigabytes: float) -> None:
    """Run a script as ``__main__``; its output goes to the file ``printed``."""
    _isolate(folder, printed, gigabytes)
    sys.argv = [path]
    sys.path.insert(0, folder)
    try:
        runpy.run_path(path, run_name="__main__")
    except SystemExit:
        raise
    except BaseException:
        traceback.print_exc()
        _leave(1)
    _leave(0)


def run_tests(
    request: tuple[str, list[str], int | None, float, bool], folder: str, printed: str, gigabytes: float
) -> None:
    """Run pytest with the checkout on ``sys.path``; its output goes to the file ``printed``."""
    checkout, options, sample, seconds, unskips = request
    _isolate(folder, printed, gigabytes)
    sys.path.insert(0, checkout)
    tools.add_to_path()
    import pytest

    plugins: list[object] = [TimeLimit(seconds)]
    if sample is not None:
        plugins.append(Sample(sample))
    if unskips:
        plugins.append(Unskip())
    _leave(int(pytest.main(options, plugins=plugins)))


class TimeLimit:
    """A pytest plugin that limits each test to half of the remaining seconds, but at least ``least``.

    The signal is handled between Python instructions.
    """

    def __init__(self, seconds: float, least: float = 1.0) -> None:
        self.end = time.monotonic() + seconds
        self.least = least

    def pytest_runtest_setup(self) -> None:
        """Implement the pytest hook."""
        # The traceback of a failed test is a reference cycle that keeps its tensors alive; freed memory stays in the
        # npu's caching allocator, which the host shares.
        gc.collect()
        torch.npu.empty_cache()
        signal.signal(signal.SIGALRM, _stop)
        signal.setitimer(signal.ITIMER_REAL, max(self.least, (self.end - time.monotonic()) / 2))

    def pytest_runtest_teardown(self) -> None:
        """Implement the pytest hook."""
        signal.setitimer(signal.ITIMER_REAL, 0)


def _stop(*_signal: object) -> None:
    raise TimeoutError(TOO_LONG)


class Sample:
    """A pytest plugin that keeps ``count`` evenly spaced tests."""

    def __init__(self, count: int) -> None:
        self.count = count

    def pytest_collection_modifyitems(self, items: list[object]) -> None:
        """Implement the pytest hook."""
        step = max(1, len(items) // self.count)
        items[:] = items[::step][: self.count]


class Unskip:
    """A pytest plugin that runs the tests that ``unittest.skip`` leaves out, and only these."""

    _MARK = "runs_in_spite_of_skip"

    def __init__(self) -> None:
        unittest.skip = self._mark  # type: ignore[assignment]  # before the tests' modules are imported

    def _mark(self, _reason: object = "") -> Callable[[_Test], _Test]:
        def mark(test: _Test) -> _Test:
            setattr(test, self._MARK, True)
            return test

        return mark

    def pytest_collection_modifyitems(self, items: list[pytest.Function]) -> None:
        """Implement the pytest hook."""
        items[:] = [
            item for item in items if getattr(item.function, self._MARK, False) or getattr(item.cls, self._MARK, False)
        ]


def _isolate(folder: str, printed: str, gigabytes: float) -> None:
    os.setsid()
    most = int(gigabytes * 2**30)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    os.chdir(folder)
    output = os.open(printed, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(output, stream)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    torch.set_num_threads(1)
    # PyTorch keeps the folder of the process that this one was forked from.
    torch._dynamo.config.debug_dir_root = str(Path(printed).with_name("torch_compile_debug"))


def _leave(code: int) -> None:
    """Exit without the interpreter's shutdown, which would wait for threads; output is flushed."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
