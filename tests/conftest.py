"""Imports graph_quant first, as a user's program does."""

import os
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path

import graph_quant  # noqa: F401  (before torch: this is what makes it importable)
import pytest
import torch
import torch._functorch.config
from graph_quant.start.preload import HOST, chosen

from support.absences import absence
from support.tensors import draw_for

# PyTorch refuses operators that return what they were given only on machines that call themselves CI: here everywhere.
os.environ.setdefault("TORCHINDUCTOR_ERROR_ON_CUSTOM_OP_ALIASING", "1")
if hasattr(torch._functorch.config, "error_on_custom_op_aliasing"):  # since torch 2.11
    torch._functorch.config.error_on_custom_op_aliasing = True

ROOT = Path(__file__).parent.parent
# These folders test the host NPU itself; all others run on a real NPU too.
HOST_ONLY = ("capture", "host", "engine", "kernels")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests of the host NPU where CANN is the runtime of torch_npu."""
    if chosen() == HOST:
        return
    skip = pytest.mark.skip(reason=f"host-only: the runtime of torch_npu is {chosen()}")
    for item in items:
        if item.path.parent.name in HOST_ONLY:
            item.add_marker(skip)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, None, None]:
    """Skip a test that calls an operator, or an argument, that the installed release of torch_npu lacks."""
    try:
        return (yield)
    except Exception as error:
        if (name := absence(error)) is not None:
            pytest.skip(f"absent in this release: {name}")
        raise


@pytest.fixture
def run_python(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return a function that runs code in a new Python process, in an empty folder."""

    def run(code: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", code, *arguments],
            cwd=tmp_path,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=300,
        )

    return run


@pytest.fixture
def run_script(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return a function that runs a script from a file, which processes that it spawns import again."""

    def run(code: str, *command: str) -> subprocess.CompletedProcess[str]:
        path = tmp_path / "script.py"
        path.write_text(code)
        return subprocess.run(
            [sys.executable, *command, str(path)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
        )

    return run


@pytest.fixture(autouse=True)
def _seed_by_test_name(request: pytest.FixtureRequest) -> None:
    draw_for(request.node.nodeid)
