"""What a forked process does. Importing this loads the libraries, so that it is done once for all of them."""

from __future__ import annotations

import gc
import os
import resource
import runpy
import signal
import sys
import time
import traceback
from pathlib import Path

import graph_quant  # noqa: F401  (before torch)
import torch
import torch._dynamo.config
import torch_npu  # noqa: F401
import torchair  # noqa: F401

from .outcome import TOO_LONG

_TOOLS = Path(__file__).with_name("bin").resolve()


def run_script(path: str, folder: str, printed: str, gigabytes: float) -> None:
    """Run a program as Python would; its output goes to the file ``printed``."""
    _apart(folder, printed, gigabytes)
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


def run_tests(given: tuple[str, list[str], int | None, float], folder: str, printed: str, gigabytes: float) -> None:
    """Run pytest with options, for tests that import from their checkout; its output goes to the file ``printed``."""
    checkout, options, sample, seconds = given
    _apart(folder, printed, gigabytes)
    sys.path.insert(0, checkout)
    os.environ["PATH"] = os.pathsep.join([str(_TOOLS), os.environ.get("PATH", "")])
    import pytest

    plugins: list[object] = [Stop(seconds)] if sample is None else [Stop(seconds), Sample(sample)]
    _leave(int(pytest.main(options, plugins=plugins)))


class Stop:
    """A plugin of pytest that gives each test half of the seconds that are left, and ``least`` of them at least.

    A test is stopped between two calls of Python.
    """

    def __init__(self, seconds: float, least: float = 1.0) -> None:
        self.end = time.monotonic() + seconds
        self.least = least

    def pytest_runtest_setup(self) -> None:
        """As pytest calls it."""
        # The traceback of a test that failed goes round in a cycle, and holds the tensors that it failed with; what
        # they leave is kept for the npu, where the host, which has the same memory, does not get it.
        gc.collect()
        torch.npu.empty_cache()
        signal.signal(signal.SIGALRM, _stop)
        signal.setitimer(signal.ITIMER_REAL, max(self.least, (self.end - time.monotonic()) / 2))

    def pytest_runtest_teardown(self) -> None:
        """As pytest calls it."""
        signal.setitimer(signal.ITIMER_REAL, 0)


def _stop(*_signal: object) -> None:
    raise TimeoutError(TOO_LONG)


class Sample:
    """A plugin of pytest that leaves so many tests, evenly from among all."""

    def __init__(self, count: int) -> None:
        self.count = count

    def pytest_collection_modifyitems(self, items: list[object]) -> None:
        """As pytest calls it."""
        step = max(1, len(items) // self.count)
        items[:] = items[::step][: self.count]


def _apart(folder: str, printed: str, gigabytes: float) -> None:
    os.setsid()
    most = int(gigabytes * 2**30)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    os.chdir(folder)
    output = os.open(printed, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(output, stream)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    torch.set_num_threads(1)
    # PyTorch took the folder in which this process was made ready.
    torch._dynamo.config.debug_dir_root = str(Path(printed).with_name("torch_compile_debug"))


def _leave(code: int) -> None:
    """End without what an interpreter does last: what was printed is kept, and nothing waits for threads."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
