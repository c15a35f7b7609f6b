"""A faulty operator package is named and skipped: torch, the device and the other packages work."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

RULES = """
from graph_quant.extension import Plan, Result, Rules, operator
import torch


def twice(x):
    return x + x


@operator("faulty::twice", reference=twice)
def rules_of_twice(rules: Rules, x: torch.Tensor) -> Plan:
    return Plan((Result(tuple(x.shape), x.dtype),))
"""
DEFINE = "import torch\ntorch.library.define('faulty::twice', '(Tensor x) -> Tensor')\n"
FAULTS = {
    "no definition": (RULES, "faulty::twice has a record but is not defined by torch.library.define"),
    "no such import": ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
    "a composite kernel": (
        f"{DEFINE}torch.library.impl('faulty::twice', 'CompositeImplicitAutograd', lambda x: x)\n{RULES}",
        "faulty::twice cannot be registered: ",
    ),
    "a reference with other names": (f"{DEFINE}{RULES.replace('twice(x)', 'twice(z)')}", "TypeError: "),
}


@pytest.fixture
def package(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A folder with an installed package that has the requested code, and one that works."""
    for name, code in (("faulty", request.param), ("sound", f"{DEFINE}{RULES}".replace("faulty", "sound"))):
        information = tmp_path / f"{name}-1.0.dist-info"
        information.mkdir()
        (tmp_path / f"{name}_operators.py").write_text(code)
        (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (information / "entry_points.txt").write_text(f"[graph_quant.operators]\nmine = {name}_operators\n")
    return tmp_path


def run(package: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(package)}
    command = [sys.executable, "-m", "graph_quant", *arguments]
    return subprocess.run(command, cwd=package, env=environment, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize(
    ("package", "reason"), [pytest.param(*fault, id=name) for name, fault in FAULTS.items()], indirect=["package"]
)
def test_a_faulty_package_is_named_and_skipped(package: Path, reason: str) -> None:
    code = "import torch; print(torch.ops.sound.twice(torch.ones(1).npu()).item())"
    done = run(package, "run", "-c", code)
    assert (done.stdout, done.returncode) == ("2.0\n", 0), done.stderr
    (line,) = done.stderr.splitlines()
    name = "graph_quant.operators: mine = faulty_operators of faulty 1.0"
    assert f"the entry point {name} does not work: {reason}" in line


@pytest.mark.parametrize("package", [RULES], indirect=True)
def test_commands_work_beside_a_faulty_package(package: Path) -> None:
    code = """
import torch, torch_npu, torchair
config = torchair.CompilerConfig()
config.debug.graph_dump.type = "pbtxt"
config.debug.graph_dump.path = "."
backend = torchair.get_npu_backend(compiler_config=config)
torch.compile(torch.relu, backend=backend)(torch.ones(3).npu())
"""
    assert run(package, "run", "-c", code).returncode == 0
    (dump,) = package.glob("dynamo_optimized_graph_*")
    done = run(package, "inspect", str(dump))
    assert "Relu" in done.stdout
    assert done.returncode == 0, done.stderr
    done = run(package, "operators", "twice")
    assert [line.split()[0] for line in done.stdout.splitlines()[1:-1]] == ["sound::twice"]
