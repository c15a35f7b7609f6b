"""graph-quant verify: unchanged scripts, exit codes, and errors in one line."""

import json
import shutil
import subprocess
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import torch
from graph_quant.cli import main
from graph_quant.start.preload import HOST, chosen
from graph_quant.verification import verify

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
UNCHANGED = """
import sys
import torch, torch_npu, torchair

def quantise(x, scale):
    y = torch.sigmoid(x)
    return torch_npu.npu_quantize(y, scale, None, torch.quint4x2, -1, False)

if __name__ == "__main__":
    compiled = torch.compile(quantise, backend=torchair.get_npu_backend(), dynamic=True)
    y = compiled(torch.linspace(-4, 4, 32).reshape(4, 8).npu(), torch.full((8,), 9.0).npu())
    print("shape", *y.shape, *sys.argv[1:])
"""
DEFINING = """
import torch

class Model(torch.nn.Module):
    def forward(self, x, *, times=1):
        return torch.relu(x) * times

model = Model()
inputs = (torch.randn(3).npu(),)
named = {"x": torch.randn(3).npu(), "times": 2}
def made():
    return torch.randn(3).npu()
number = 3
"""


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], str]:
    def write(text: str) -> str:
        torch._dynamo.reset()
        path = tmp_path / "script.py"
        path.write_text(text)
        return str(path)

    return write


@pytest.fixture
def broken_packing(break_kernel: Callable[..., None]) -> None:
    break_kernel("Bitcast", lambda original, x, **attributes: original(x.flip(-1), **attributes))


def test_from_a_shell(script: Callable[[str], str], run_python: Callable[..., Any]) -> None:
    code = "import sys; from graph_quant.cli import main; sys.exit(main(['verify', *sys.argv[1:]]))"
    done = run_python(code, script(UNCHANGED))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("equal: 2 results in 1 graph on the host NPU, bit for bit\n")


SPAWNING = """
import torch, torch_npu, torchair
import torch.multiprocessing as mp

def child(x, queue):
    queue.put((x + 1).tolist())

if __name__ == "__main__":
    x = torch.ones(2).npu()
    torch.compile(torch.relu, backend=torchair.get_npu_backend())(x)
    context = mp.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=child, args=(x, queue))
    process.start()
    process.join(120)
    print("child", process.exitcode, queue.get(timeout=1))
"""


def test_processes_that_a_script_spawns_use_the_host_npu(run_script: Callable[..., Any]) -> None:
    done = run_script(SPAWNING, "-m", "graph_quant", "verify")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("child 0 [2.0, 2.0]\n")
    assert "equal: 1 result" in done.stdout


def test_an_unchanged_script(script: Callable[[str], str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", script(UNCHANGED), "--", "--with", "arguments", "--", "--json"]) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("shape 4 1 --with arguments -- --json\ngraph_")
    assert captured.out.endswith("equal: 2 results in 1 graph on the host NPU, bit for bit\n")
    assert max(len(line) for line in captured.out.splitlines()) <= 100


@pytest.mark.usefixtures("broken_packing")
def test_a_wrong_graph(script: Callable[[str], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, json_file = script(UNCHANGED), tmp_path / "report.json"
    assert main(["verify", "--json", str(json_file), path]) == 1
    out = capsys.readouterr().out
    assert "first divergence  npu_quantize  npu.npu_quantize.default" in out
    assert f"{path}:7" in out
    first = json.loads(json_file.read_text())["first_divergence"]
    assert first["line"] == {
        "file": path,
        "number": 7,
        "code": "return torch_npu.npu_quantize(y, scale, None, torch.quint4x2, -1, False)",
    }
    assert [node["type"] for node in first["ge"]] == ["AscendQuantV2", "Const", "Reshape", "Bitcast"]
    assert main(["verify", "--max-error", "15", path]) == 0


@pytest.mark.parametrize(
    "options", [[], ["--inputs", "named"], ["--inputs", "made", "--no-dynamic"], ["--model", "model", "--dynamic"]]
)
def test_a_model_that_a_script_defines(
    script: Callable[[str], str], capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    assert main(["verify", *options, script(DEFINING)]) == 0
    assert "✓ output f32[3] against eager: equal bits" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (None, [], "No such file or directory"),
        ("x = 1", [], "it ran no graph compiled for the NPU and defines no `model` and `inputs`"),
        (DEFINING, ["--model", "missing"], "it defines no `missing`"),
        (DEFINING, ["--model", "number"], "number must be a module or a function, got int"),
        (DEFINING + "model = lambda x: x @ x.missing", [], "model stops: AttributeError"),
        ("\nraise ValueError('no\\nway')", [], "it stops: ValueError: no (line 2: raise ValueError('no\\nway'))"),
        ("import sys; sys.exit(3)", [], "it ended with exit code 3"),
        ("def f(:", [], "it is no Python script: SyntaxError"),
        (DEFINING, ["--html", "no/such/folder/page.html"], "there is no such folder"),
    ],
)
def test_errors_are_reported_in_one_line(
    script: Callable[[str], str],
    capsys: pytest.CaptureFixture[str],
    text: str | None,
    options: list[str],
    message: str,
) -> None:
    path = "missing.py" if text is None else script(text)
    assert main(["verify", *options, path]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.startswith("graph-quant: ")
    assert captured.err.count("\n") == 1
    assert captured.out == ""


@pytest.mark.parametrize("before", [True, False])
def test_options_before_and_after_the_script(
    script: Callable[[str], str], tmp_path: Path, break_kernel: Callable[..., None], before: bool
) -> None:
    break_kernel("Sigmoid", lambda original, x: original(x) + 1e-6)
    path, page = script(UNCHANGED), tmp_path / "page.html"
    options = ["--max-error", "2", "--html", str(page)]
    assert main(["verify", *options, path] if before else ["verify", path, *options]) == 0
    assert "within the thresholds" in page.read_text()
    assert main(["verify", path]) == 1


def test_an_option_that_nobody_takes(script: Callable[[str], str], capsys: pytest.CaptureFixture[str]) -> None:
    path = script(UNCHANGED)
    assert main(["verify", "--batch=4", path, "--html", "page.html"]) == 2
    assert capsys.readouterr().err == (
        "graph-quant: verify has no option --batch=4; put arguments of the script after --: "
        f"graph-quant verify {path} -- --batch=4\n"
    )
    assert not Path("page.html").exists()


REFUSED = (
    UNCHANGED
    + """
    refused = torch.compile(lambda x: torch_npu.npu_quantize(x, torch.ones(5).npu(), None, torch.qint8, -1, False),
                            backend="npu", fullgraph=True)
    refused(torch.ones(3, 4).npu())
"""
)


def test_a_script_that_stops(script: Callable[[str], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The rule is named, and the graphs before it are reported."""
    path, json_file = script(REFUSED), tmp_path / "report.json"
    assert main(["verify", path, "--json", str(json_file)]) == 2
    captured = capsys.readouterr()
    rule = "npu_quantize: scales.size(-1) must be 1 or equal input.size(-1), got 5 and 4"
    assert captured.err.startswith(f"graph-quant: {path}: it stops: {rule} (line 14: refused = torch.compile(lambda x:")
    assert captured.err.count("\n") == 1
    assert "stopped; until then equal: 2 results in 1 graph on the host NPU, bit for bit\n" in captured.out
    document = json.loads(json_file.read_text())
    assert (document["ok"], len(document["graphs"])) == (False, 1)
    assert rule in document["stopped"]
    assert main(["verify", path, "--traceback"]) == 2
    assert f'File "{path}", line 16' in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [["verify", "SCRIPT"], ["lint", "DUMP"], ["inspect", "DUMP"], ["diff", "DUMP", "DUMP"]], ids=str
)
def test_a_closed_pipe_is_no_difference(
    script: Callable[[str], str], run_python: Callable[..., Any], arguments: list[str]
) -> None:
    """The exit code is the shell's for a broken pipe."""
    dump = Path(__file__).parents[1] / "dumps" / "data" / "upstream_group_quant_int4.txt"
    options = [{"SCRIPT": script(UNCHANGED), "DUMP": str(dump)}.get(argument, argument) for argument in arguments]
    code = "import os, sys; from graph_quant.cli import main; r, w = os.pipe(); os.close(r); os.dup2(w, 1); "
    done = run_python(code + "sys.exit(main(sys.argv[1:]))", *options)
    assert (done.returncode, done.stdout, done.stderr) == (141, "", "")


@pytest.mark.parametrize("options", [["--max-error", "-1"], ["--calls", "-1"], ["--min-sqnr", "loud"], []])
def test_wrong_options(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["verify", *options])
    assert left.value.code == 2
    assert "usage: graph-quant verify" in capsys.readouterr().err


@pytest.mark.skipif(chosen() is not HOST, reason="host only: with CANN, torch_npu loads")
def test_a_machine_where_torch_npu_does_not_load(run_python: Callable[..., Any]) -> None:
    code = "import sys; from graph_quant.cli import main; sys.exit(main(['verify', 'script.py']))"
    done = run_python(code, GRAPH_QUANT_HOST="off", LD_LIBRARY_PATH="")
    if done.returncode != 2:
        pytest.skip("CANN is installed here")
    assert (
        done.stderr == "graph-quant: torch_npu and TorchAir do not load here; `graph-quant doctor` says how to fix it\n"
    )


class _Page(HTMLParser):
    """Counts the tags of a page, and the resources it would load."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.loads: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.loads += [f"{tag} {name}" for name, _ in attrs if name in ("src", "href")]


@pytest.mark.usefixtures("broken_packing")
def test_the_page(script: Callable[[str], str], tmp_path: Path) -> None:
    path, html = script(UNCHANGED), tmp_path / "report.html"
    assert main(["verify", "--html", str(html), path]) == 1
    page = _Page()
    page.feed(html.read_text(encoding="utf-8"))
    assert page.loads == []
    assert page.tags.count("circle") == 4  # two results in two plots
    assert page.tags.count("figure") == 1
    assert page.tags.count("tr") == 1 + 2 + 2  # the output, against eager execution and against the FX graph
    if CHROMIUM is None:
        pytest.skip("no Chromium to open the page with")
    _opens_in_chromium(CHROMIUM, html, tmp_path)


def _opens_in_chromium(chromium: str, html: Path, folder: Path) -> None:
    flags = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}"]
    logged = ["--enable-logging=stderr", "--v=0", "--virtual-time-budget=2000", "--dump-dom"]
    done = subprocess.run([chromium, *flags, *logged, html.as_uri()], capture_output=True, text=True, timeout=120)
    page = _Page()
    page.feed(done.stdout)
    assert page.tags.count("circle") == 4
    assert "First divergence" in done.stdout
    assert "CONSOLE" not in done.stderr


def test_hostile_names_stay_text() -> None:
    def harmless(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x)  # </td><script>alert(1)</script>

    report = verify(harmless, torch.randn(2).npu())
    report.title = "<img src=x>"
    page = _Page()
    page.feed(report.to_html())
    assert "img" not in page.tags
    assert "script" not in page.tags


LEAVING = (
    UNCHANGED
    + """
    import os
    os._exit(0)
"""
)


@pytest.mark.usefixtures("broken_packing")
def test_a_script_that_exits_is_still_reported(
    script: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", script(LEAVING)]) == 1
    assert "different: " in capsys.readouterr().out


def test_a_script_of_which_nothing_can_be_compared(
    script: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = script("import torch\nmodel, inputs = torch.rand_like, (torch.ones(64).npu(),)\n")
    assert main(["verify", path]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"graph-quant: {path}: nothing could be compared: ")
    assert error.count("\n") == 1


def test_changes_of_the_process_by_a_script_are_undone(
    script: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The script redirects stdout and changes the folder: the report is still printed, and written to its path."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other").mkdir()
    away = "    import os, sys\n    sys.stdout = None\n    os.chdir('other')\n"
    assert main(["verify", script(UNCHANGED + away), "--json", "report.json"]) == 0
    assert "equal: 2 results" in capsys.readouterr().out
    assert (tmp_path / "report.json").exists()


def test_a_misspelt_option_gets_a_suggestion(script: Callable[[str], str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", script(UNCHANGED), "--jsn", "report.json"]) == 2
    assert capsys.readouterr().err.startswith("graph-quant: verify has no option --jsn (--json?); put arguments of")
