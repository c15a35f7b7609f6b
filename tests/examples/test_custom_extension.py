"""The package to copy, examples/custom_extension, works where it is installed, outside this repository."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "custom_extension"
INSTALL = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--target"]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a copy of the example, installed into its subfolder ``site``."""
    copy = tmp_path_factory.mktemp("outside") / "copy"
    shutil.copytree(EXAMPLE, copy, ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
    subprocess.run([*INSTALL, str(copy / "site"), str(copy)], check=True)
    for package in ("my_ops", "my_ops_host"):
        shutil.rmtree(copy / package)  # the installed ones are imported
    return copy


def run(installed: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(installed / "site")}
    return subprocess.run(
        [sys.executable, *arguments], cwd=installed, env=environment, capture_output=True, text=True, timeout=300
    )


def test_its_own_tests_pass(installed: Path) -> None:
    done = run(installed, "-m", "pytest", "-q", "--show-capture=no")
    assert done.returncode == 0, done.stdout[-3000:]


def test_the_operators_command_lists_it(installed: Path) -> None:
    done = run(installed, "-m", "graph_quant", "operators", "my_ops")
    rows = [line.split() for line in done.stdout.splitlines()[1:3]]
    assert rows == [
        ["my_ops::add_scaled_", "yes", "-", "yes", "my_ops._C"],
        ["my_ops::sort_tiles", *"---", "my_ops._C"],
    ]
