"""The pytest plugin: active on request, for other people's suites."""

import subprocess
import sys
from pathlib import Path

import pytest

TEST = """
def test_ready():
    import shutil, subprocess, sys
    assert ("graph_quant" in sys.modules) is {expected}
    assert (shutil.which("npu-smi") is not None) is {expected}
    if {expected}:
        assert b"Ascend910B3" in subprocess.run(["npu-smi", "info"], capture_output=True, check=True).stdout
        assert subprocess.run(["npu-smi", "set"], capture_output=True).returncode == 1
"""


@pytest.mark.parametrize(
    ("ini", "arguments", "expected"),
    [
        ("", [], False),
        ("", ["-p", "graph_quant.pytest"], True),
        ("graph_quant = true", [], True),
    ],
    ids=["not asked", "command line", "ini"],
)
def test_it_acts_only_on_request(tmp_path: Path, ini, arguments, expected) -> None:
    (tmp_path / "pytest.ini").write_text(f"[pytest]\n{ini}\n")
    (tmp_path / "test_it.py").write_text(TEST.format(expected=expected))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout
    assert ("graph_quant: torch_npu is ready" in done.stdout) is expected
