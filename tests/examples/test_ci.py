"""The recipe for CI, its commands run as a user's project would."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

RECIPE = Path(__file__).parents[2] / "examples" / "ci.yml"
COMMANDS = [step["run"] for step in yaml.safe_load(RECIPE.read_text())["jobs"]["test"]["steps"] if "run" in step]
MODEL = """
import torch, torch_npu
from graph_quant.nn import DynamicW8A8Linear

torch.manual_seed(0)
model = torch.nn.Sequential(DynamicW8A8Linear.from_float(torch.nn.Linear(16, 8).half())).npu()
compiled = torch.compile(model, backend="npu", dynamic=True)
with torch.no_grad():
    print(compiled(torch.randn(4, 16).half().npu()).shape)
"""
TEST = """
import torch, torch_npu

def test_device():
    assert torch.ones(2, device="npu").sum().item() == 2
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    (folder / "tests").mkdir()
    (folder / "model.py").write_text(MODEL)
    (folder / "tests" / "test_device.py").write_text(TEST)
    return folder


@pytest.mark.parametrize("command", [command for command in COMMANDS if not command.startswith("pip ")])
def test_a_step_passes(project: Path, command: str) -> None:
    """In the order of the recipe: run writes the dumps that lint checks."""
    if " lint " in command:
        assert run(project, "graph-quant lint dumps --write-baseline lint.json").returncode == 0
    done = run(project, command)
    assert done.returncode == 0, done.stdout + done.stderr
    if " verify " in command:
        assert "\nequal: " in done.stdout
        assert "--min-sqnr" not in done.stdout
    if " lint " in command:
        assert [path.name for path in (project / "dumps").iterdir()] == ["Sequential.txt"]
        check_gate_turns_red(project, command)


def check_gate_turns_red(project: Path, command: str) -> None:
    """The gate fails once the graph computes in floating point what was quantised."""
    worse = MODEL.replace(
        "DynamicW8A8Linear.from_float(torch.nn.Linear(16, 8).half())", "torch.nn.Linear(16, 8).half()"
    )
    (project / "worse.py").write_text(worse)
    assert run(project, "graph-quant run --dump dumps worse.py").returncode == 0
    done = run(project, command)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "::error file=dumps/Sequential.txt," in done.stdout
    assert "title=graph-quant quantised-share::" in done.stdout


def run(project: Path, command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])}
    return subprocess.run(command, shell=True, cwd=project, env=environment, capture_output=True, text=True)
