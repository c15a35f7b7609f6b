"""graph-quant run is python: arguments, standard input, exit codes, tracebacks and signals."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

RUN = [sys.executable, "-m", "graph_quant", "run"]


def run(*arguments: str, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*RUN, *arguments], capture_output=True, text=True, timeout=120, **options)


@pytest.fixture
def script(tmp_path: Path):
    def write(code: str) -> str:
        path = tmp_path / "script.py"
        path.write_text(code)
        return str(path)

    return write


def test_npu_script_without_graph_quant(script) -> None:
    path = script("""
import torch
import torch_npu

x = torch.tensor([[1.5, -2.0]], dtype=torch.float16).npu()
print(x)
""")
    done = run(path)
    assert (done.stdout, done.stderr) == (
        "tensor([[ 1.5000, -2.0000]], device='npu:0', dtype=torch.float16)\n",
        "",
    )


def test_arguments_standard_input_and_exit_code(script) -> None:
    path = script("import sys; print(sys.argv[1:], __name__, sys.stdin.read()); sys.exit(7)")
    done = run(path, "--help", "-m", "x y", input="typed")
    assert done.stdout == "['--help', '-m', 'x y'] __main__ typed\n"
    assert done.returncode == 7


def test_modules_code_and_python_options() -> None:
    assert run("-m", "this").stdout.startswith("The Zen of Python")
    assert run("-c", "import sys; print(sys.argv)", "a").stdout == "['-c', 'a']\n"
    assert run("-W", "error", "-c", "import warnings; warnings.warn('w')").returncode == 1


def test_a_traceback_is_pythons_own(script) -> None:
    path = script("def f():\n    raise ValueError('inside')\nf()\n")
    with_run, with_python = run(path), subprocess.run([sys.executable, path], capture_output=True, text=True)
    assert with_run.stderr == with_python.stderr
    assert with_run.returncode == with_python.returncode == 1


def test_a_missing_script_is_reported_by_python() -> None:
    done = run("no_such_script.py")
    assert done.returncode == 2
    assert "can't open file" in done.stderr


def test_signals_reach_the_script(script) -> None:
    path = script("print('ready', flush=True)\nimport time\ntime.sleep(60)\n")
    process = subprocess.Popen([*RUN, path], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=30) == -signal.SIGTERM


def test_an_interrupt_shows_the_lines_of_the_script(script) -> None:
    path = script("""
import json, os, signal

def stop(value):
    os.kill(os.getpid(), signal.SIGINT)

json.dumps([object()], default=stop, indent=1)
""")
    done = run(path)
    assert done.returncode == -signal.SIGINT
    lines = done.stderr.splitlines()
    assert [line.strip().partition(", in ")[2] for line in lines if line.startswith("  File ")] == ["<module>", "stop"]
    assert lines[-1] == "KeyboardInterrupt"
    assert " frames of libraries)" in lines[-2]


def test_the_import_path_and_a_sitecustomize_of_the_users_own_are_kept(tmp_path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import builtins; builtins.seen = 'own'")
    code = "import sys; print(seen, [p for p in sys.path if 'start/site' in p])"
    done = run("-c", code, env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert done.stdout == "own []\n"


def test_child_processes_load_torch_npu() -> None:
    code = (
        "import subprocess, sys; "
        "print(subprocess.run([sys.executable, '-c', 'import sys; print(\"graph_quant\" in sys.modules)'], "
        "capture_output=True, text=True).stdout)"
    )
    assert run("-c", code).stdout.strip() == "True"


def test_other_pythons_are_not_changed(script, tmp_path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "sitecustomize.py").write_text("print('its own')\n")
    # Without site-packages and the path of this project, as an interpreter of another installation would be.
    path = script(f"""
import os, subprocess, sys
site = os.environ["PYTHONPATH"].split(os.pathsep)[0]
code = f"import sys; sys.path[:0] = [{{site!r}}, {str(other)!r}]; import sitecustomize"
done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, cwd="/")
print(repr(done.stdout), repr(done.stderr))
""")
    assert run(path).stdout == "'its own\\n' ''\n"


REFUSED = """
import torch
import torch_npu

def quantise(x, scale):
    return torch_npu.npu_group_quant(x, scale, torch.tensor([4, 8], device=x.device), dst_dtype=torch.int8)

torch.compile(quantise, backend="npu")(torch.ones(8, 16, device="npu"), torch.ones(2, 7, device="npu"))
"""


def test_a_refused_call_ends_with_the_rule_the_line_and_the_page(script) -> None:
    path = script(REFUSED)
    done = run(path)
    assert done.returncode == 1
    assert done.stdout == ""
    rule, line, page, hint = done.stderr.splitlines()
    assert rule == "npu_group_quant: scale.size(1) must equal x.size(1), got 7 and 16"
    assert line.startswith(f"  {path}:6: return torch_npu.npu_group_quant(x, scale, ")
    assert (Path(__file__).parents[2] / page.partition(": ")[2]).is_file()
    assert "--traceback" in hint


def test_the_whole_traceback_is_an_option_away() -> None:
    shown = run("--traceback", "-c", "from graph_quant.refusals import Refusal; raise Refusal('a rule')").stderr
    assert shown.startswith("Traceback (most recent call last):")
    assert run("--traceback").stderr == "graph-quant: --traceback must be followed by a script, -m module or -c code\n"
