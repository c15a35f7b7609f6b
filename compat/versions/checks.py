"""The twelve scripts, the demo and a sample of the suite, run in an environment."""

from __future__ import annotations

import os
import re
import subprocess
import xml.etree.ElementTree as ElementTree
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .environment import Environment, Release

SCRIPTS = Path(__file__).parent / "scripts"
# The scripts that a column of the table counts, by the feature that they show.
FEATURES = {
    "eager": ("eager", "backward", "plugin", "checkpoint"),
    "graphs": ("graph_static", "graph_dynamic", "plan", "verify", "dump"),
    "captured graphs": ("captured", "npugraph_ex"),
    "ranks": ("ranks",),
}
# Tests that depend on the release most: binding, capture, both compilers, engine, device, quantised modules.
SAMPLE = (
    "tests/releases",
    "tests/capture/test_graph.py",
    "tests/capture/test_compilers.py",
    "tests/engine/test_behaviour.py",
    "tests/host/test_device.py",
    "tests/nn/test_linears.py",
    "tests/operators/quant",
)
_ABSENT = "absent: "
_SECONDS = 900
# Variables of the environment that are not passed on.
_OF_THE_CALLER = ("PYTHONPATH", "VIRTUAL_ENV", "PYTHONDONTWRITEBYTECODE")


@dataclass
class Outcome:
    """What ran with one release."""

    release: str
    torch: str
    python: str
    changed: dict[str, Any] = field(default_factory=dict)
    scripts: dict[str, str] = field(default_factory=dict)
    example: str = ""
    demo: str = ""
    passed: int = 0
    skipped: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    # What the page says of a row that more than one run made.
    note: str = ""

    @property
    def is_supported(self) -> bool:
        """Whether everything that the release has works."""
        works = all(result == "passed" or result.startswith(_ABSENT) for result in self.scripts.values())
        return works and self.example == "runs" and self.demo == "equal" and not self.failed and not self.changed

    def as_dict(self) -> dict[str, Any]:
        """The outcome for JSON."""
        return asdict(self)


def run_checks(environment: Environment, release: Release, root: Path, folder: Path, *, suite: bool) -> Outcome:
    """Run everything in an environment that has the package."""
    versions = environment.versions()
    python = _run([environment.python, "--version"], folder).stdout.split()[-1]
    outcome = Outcome(versions["torch_npu"], versions["torch"], python)
    for names in FEATURES.values():
        for name in names:
            outcome.scripts[name] = run_script(environment, name, folder)
            print(f"{release.name}: {name}: {outcome.scripts[name]}", flush=True)
    outcome.example = run_example(environment, outcome, root, folder)
    print(f"{release.name}: the README's example: {outcome.example}", flush=True)
    outcome.demo = run_demo(environment, root, folder)
    print(f"{release.name}: demo: {outcome.demo}", flush=True)
    if suite:
        run_sample(environment, outcome, root, folder)
        print(f"{release.name}: {outcome.passed} tests passed, {len(outcome.failed)} failed", flush=True)
    return outcome


def run_script(environment: Environment, name: str, folder: Path) -> str:
    """Return "passed", "absent: NAME" or the last line of the error."""
    ranks = ["--ranks", "2"] if name in FEATURES["ranks"] else []
    done = _run([environment.command, "run", *ranks, SCRIPTS / f"{name}.py"], folder)
    absent = [line for line in done.stdout.splitlines() if line.startswith(_ABSENT)]
    if done.returncode == 0:
        return absent[0] if absent else "passed"
    return _last_error(done)


def run_example(environment: Environment, outcome: Outcome, root: Path, folder: Path) -> str:
    """Run the README's example; return "runs" or the last line of the error."""
    code = re.findall(r"^```python\n(.*?)^```", (root / "README.md").read_text(encoding="utf-8"), re.M | re.S)[0]
    if outcome.scripts["npugraph_ex"].startswith(_ABSENT):
        code = code.replace('backend="npugraph_ex"', 'backend="npu"')  # as the example says
    script = folder / "quantise.py"
    script.write_text(code, encoding="utf-8")
    done = _run([environment.command, "run", script], folder)
    return "runs" if done.returncode == 0 and "dtype=torch.int32" in done.stdout else _last_error(done)


def _last_error(done: subprocess.CompletedProcess[str]) -> str:
    errors = [line for line in done.stderr.splitlines() if re.search(r"\w*(Error|Refusal)\b", line)]
    return f"failed: {(errors or [f'exit code {done.returncode}'])[-1][:200]}"


def run_demo(environment: Environment, root: Path, folder: Path) -> str:
    """Return "equal" if the demo's results are equal to the bit."""
    done = _run([environment.python, root / "examples" / "demo.py", "--out", folder / "demo"], folder)
    return "equal" if done.returncode == 0 and "every result equals" in done.stdout else "failed"


def run_sample(environment: Environment, outcome: Outcome, root: Path, folder: Path) -> None:
    """Run the sample of the suite, and count what passed."""
    report = folder / "report.xml"
    command = [
        environment.python,
        "-m",
        "pytest",
        "-c",
        root / "pyproject.toml",
        "--rootdir",
        root,
        f"--junitxml={report}",
    ]
    _run([*command, "-p", "no:cacheprovider", *(root / path for path in SAMPLE)], folder, seconds=3 * _SECONDS)
    if not report.exists():
        outcome.failed.append("the suite did not end")
        return
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name')}"
        skip = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            outcome.failed.append(name)
        elif skip is not None:
            outcome.skipped.append(f"{name}: {skip.get('message')}")
        else:
            outcome.passed += 1


def _run(command: list[Any], folder: Path, seconds: int = _SECONDS) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name not in _OF_THE_CALLER}
    environment["OMP_NUM_THREADS"] = "1"
    command = [str(part) for part in command]
    try:
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "", f"TimeoutError: no end after {seconds} s")
