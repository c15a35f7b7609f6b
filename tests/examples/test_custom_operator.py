"""The package to copy, examples/custom_operator, works where it is installed, outside this repository."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "custom_operator"
INSTALL = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--target"]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a copy of the example, installed into its subfolder ``site``."""
    copy = tmp_path_factory.mktemp("outside") / "copy"
    shutil.copytree(EXAMPLE, copy, ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
    subprocess.run([*INSTALL, str(copy / "site"), str(copy)], check=True)
    shutil.rmtree(copy / "custom_operator")  # the installed one is imported
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
    done = run(installed, "-m", "graph_quant", "operators", "row_quant")
    package = "custom_operator"
    assert done.stdout.splitlines()[1].split() == [f"{package}::row_quant", "yes", "yes", "yes", package, package]
