"""Every test sees the process as a user's program does that imported graph_quant first."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import graph_quant  # noqa: F401  (before torch: this is what makes it importable)
import pytest
import torch
import torch._functorch.config
from graph_quant.start.preload import HOST, chosen

from support.tensors import draw_for

# PyTorch refuses operators that return what they were given only on machines that call themselves CI: here everywhere.
os.environ.setdefault("TORCHINDUCTOR_ERROR_ON_CUSTOM_OP_ALIASING", "1")
if hasattr(torch._functorch.config, "error_on_custom_op_aliasing"):  # since torch 2.11
    torch._functorch.config.error_on_custom_op_aliasing = True

ROOT = Path(__file__).parent.parent
# These folders test the host NPU itself; everything else runs on a real NPU as it stands.
HOST_ONLY = ("capture", "host", "engine", "kernels")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Say of tests of the host NPU that they are, where CANN serves torch_npu."""
    if chosen() == HOST:
        return
    skip = pytest.mark.skip(reason=f"host-only: here torch_npu is served by {chosen()}")
    for item in items:
        if item.path.parent.name in HOST_ONLY:
            item.add_marker(skip)


@pytest.fixture
def run_python(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a fresh Python with some code, in an empty folder."""

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


@pytest.fixture(autouse=True)
def _same_numbers_every_time(request: pytest.FixtureRequest) -> None:
    draw_for(request.node.nodeid)
