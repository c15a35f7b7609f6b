"""The device initialises in restricted processes, and reports plainly what it does not support."""

import subprocess
import sys

USE = "import graph_quant, torch; print((torch.ones(2).npu() + 1).tolist())"


def test_starts_without_stderr_and_temporary_folder(tmp_path) -> None:
    code = f"import tempfile; tempfile.tempdir = '/nowhere'; {USE}"
    done = subprocess.run(
        ["sh", "-c", '"$0" -c "$1" 2>&-', sys.executable, code], capture_output=True, text=True, cwd=tmp_path
    )
    assert (done.returncode, done.stdout) == (0, "[2.0, 2.0]\n")


def test_unknown_chip_error_lists_known_chips(run_python) -> None:
    done = run_python(USE, GRAPH_QUANT_SOC="Foo")
    assert done.returncode == 1
    (line,) = [line for line in done.stderr.splitlines() if "Foo" in line]
    assert line.startswith("RuntimeError: GRAPH_QUANT_SOC must name a chip that torch_npu knows, got 'Foo'; it knows ")
    assert {"Ascend910B3", "Ascend310P3", "Ascend950PR_9589"} <= set(line.rpartition("knows ")[2].split(", "))


def test_saturating_arithmetic_is_refused(run_python) -> None:
    done = run_python("import graph_quant, torch", INF_NAN_MODE_FORCE_DISABLE="1")
    assert done.returncode == 1
    assert "INF_NAN_MODE_FORCE_DISABLE must not be set: the host NPU computes infinities and NaN" in done.stderr


def test_another_chip_runs(run_python) -> None:
    done = run_python(f"{USE}; print(torch.npu.get_device_name())", GRAPH_QUANT_SOC="Ascend310P3")
    assert done.stdout == "[2.0, 2.0]\nAscend310P3\n", done.stderr


def test_failed_import_of_torch_requires_a_restart(run_python) -> None:
    code = """
try:
    import torch
except Exception:
    pass
import graph_quant
"""
    done = run_python(code, GRAPH_QUANT_HOST="auto")
    last = done.stderr.strip().splitlines()[-1]
    assert "an earlier `import torch` failed in this process and cannot be tried again: restart Python" in last


def test_task_queue_is_not_started(run_python) -> None:
    code = """
import graph_quant, os, torch, torch_npu
from pathlib import Path

os.environ["TASK_QUEUE_ENABLE"] = "2"
torch.npu.set_device(0)
print((torch.ones(2).npu() + 1).tolist())
print("acl_thread" in {(task / "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()})
"""
    done = run_python(code)
    assert done.stdout.splitlines() == ["[2.0, 2.0]", "False"], done.stderr


def test_garbage_collection_is_off_during_registration(run_python) -> None:
    """A look through all that torch has made took half of the package's start."""
    code = """
import gc, sys
import graph_quant
seen = []

def note(phase, info):
    frame = sys._getframe()
    while frame is not None and frame.f_code.co_name != "_torch_npu_is_there":
        frame = frame.f_back
    seen.append(frame is not None)

gc.callbacks.append(note)
import torch, torch_npu
print(any(seen), len(seen) > 0, gc.isenabled())
"""
    assert run_python(code).stdout == "False True True\n"
    assert run_python("import gc; gc.disable(); import graph_quant, torch; print(gc.isenabled())").stdout == "False\n"
