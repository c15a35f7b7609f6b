"""What a forked process does. Importing this loads the libraries, so that it is done once for all of them."""

from __future__ import annotations

import os
import runpy
import sys
import traceback
from pathlib import Path

import graph_quant  # noqa: F401  (before torch)
import torch
import torch._dynamo.config
import torch_npu  # noqa: F401
import torchair  # noqa: F401

_TOOLS = Path(__file__).with_name("bin").resolve()


def run_script(path: str, folder: str, printed: str) -> None:
    """Run a program as Python would; its output goes to the file ``printed``."""
    _apart(folder, printed)
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


def run_tests(given: tuple[str, list[str]], folder: str, printed: str) -> None:
    """Run pytest with options, for tests that import from their checkout; its output goes to the file ``printed``."""
    checkout, options = given
    _apart(folder, printed)
    sys.path.insert(0, checkout)
    os.environ["PATH"] = os.pathsep.join([str(_TOOLS), os.environ.get("PATH", "")])
    import pytest

    _leave(int(pytest.main(options)))


def _apart(folder: str, printed: str) -> None:
    os.setsid()
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
