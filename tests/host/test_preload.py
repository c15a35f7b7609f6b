"""The runtime of torch_npu: the host NPU where CANN is missing, never where it is installed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CHOICE = "from graph_quant.start import preload; print(preload.choose())"


@pytest.fixture
def decoy(tmp_path: Path) -> str:
    """A folder with a runtime and a driver that are not ours: what a machine with CANN looks like to the loader."""
    folder = tmp_path / "cann"
    build_empty_libraries(folder, "libascendcl.so", "libascend_hal.so")
    return str(folder)


def build_empty_libraries(folder: Path, *names: str) -> None:
    folder.mkdir()
    compiler = shutil.which("cc")
    assert compiler, "a C compiler is needed, as it was to build this package"
    for name in names:
        command = [compiler, "-shared", f"-Wl,-soname,{name}", "-o", folder / name, "-x", "c", "/dev/null"]
        subprocess.run(command, check=True)


@pytest.mark.parametrize(
    ("switch", "with_cann", "expected"),
    [
        ("auto", False, "host"),
        ("auto", True, "CANN"),
        ("on", True, "host"),
        ("on", False, "host"),
        ("off", True, "CANN"),
        ("off", False, "none"),
    ],
)
def test_switch_and_loader_choose_the_runtime(run_python, decoy, switch, with_cann, expected) -> None:
    search = {"LD_LIBRARY_PATH": decoy} if with_cann else {}
    done = run_python(CHOICE, GRAPH_QUANT_HOST=switch, **search)
    assert done.stdout.strip() == expected, done.stderr


def test_shim_is_not_opened_with_cann(run_python, decoy) -> None:
    code = f"{CHOICE}; print([line for line in open('/proc/self/maps') if 'graph_quant' in line])"
    done = run_python(code, LD_LIBRARY_PATH=decoy)
    assert done.stdout.split() == ["CANN", "[]"]


def test_cann_without_a_driver_leaves_the_host_npu(run_python, tmp_path) -> None:
    """An image to build software has CANN's toolkit; libascend_hal.so comes with the driver of the machine."""
    folder = tmp_path / "toolkit" / "lib64"
    folder.parent.mkdir()
    build_empty_libraries(folder, "libascendcl.so", "libhccl.so", "libge_runner.so")
    code = "import torch, torch_npu; from graph_quant.start import preload; "
    code += "print(torch.ones(2).npu().sum().item(), preload.explain())"
    environment = {"LD_LIBRARY_PATH": str(folder), "ASCEND_HOME_PATH": str(folder.parent)}
    done = run_python(f"import graph_quant; {code}", **environment)
    reason = "libascend_hal.so: cannot open shared object file: No such file or directory"
    assert done.stdout == f"2.0 host NPU (CANN is in {folder}, but no driver: {reason})\n", done.stderr


def test_unknown_switch_is_refused_in_one_line() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "graph_quant", "run", "-c", "pass"],
        env={**os.environ, "GRAPH_QUANT_HOST": "maybe"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert done.stderr == "graph-quant: GRAPH_QUANT_HOST must be auto, on or off, got 'maybe'\n"


def test_torch_npu_fails_without_host_npu(run_python) -> None:
    done = run_python("import graph_quant, torch_npu", GRAPH_QUANT_HOST="off")
    assert done.returncode != 0
    assert "libhccl.so" in done.stderr or "libascendcl.so" in done.stderr


@pytest.mark.parametrize(
    "imports",
    [
        "import graph_quant, torch_npu, torch, torchair",
        "import os; os.environ['TORCH_DEVICE_BACKEND_AUTOLOAD'] = '0'; import torch; import graph_quant",
    ],
)
def test_any_import_order_gives_a_working_device(run_python, imports) -> None:
    done = run_python(f"{imports}; print(torch.ones(2, device='npu').sum().item())")
    assert (done.stdout, done.stderr) == ("2.0\n", "")


def test_only_expected_warnings_are_dropped(run_python) -> None:
    """Real warnings reach the screen, and nothing outside the package changes."""
    import torch_npu

    wheel = Path(torch_npu.__file__).parent
    before = {path: path.stat().st_mtime_ns for path in wheel.rglob("*.so")}
    code = "import graph_quant, torch, warnings; warnings.warn('this matters'); print(torch.ones(1).npu())"
    done = run_python(code)
    assert done.stdout == "tensor([1.], device='npu:0')\n"
    assert done.stderr.splitlines() == ["<string>:1: UserWarning: this matters"]
    assert before == {path: path.stat().st_mtime_ns for path in wheel.rglob("*.so")}
