"""Dry runs report what a model lowers to, and execute nothing."""

import json
import re
from pathlib import Path

import graph_quant
import pytest
import torch
from graph_quant.cli import main
from graph_quant.dryrun import DryRun
from graph_quant.nn import DynamicW8A8, quantize_
from torch import nn

BREAKING = """
import sys
import torch, torch_npu

def model(x):
    y = x.relu() + 1
    print("value", sys.argv[1:])
    return torch_npu.npu_dynamic_quant(y.sum(-1))

inputs = (torch.ones(4, 8).npu().half(),)
"""
COMPILING = """
import torch, torch_npu

@torch.compile(backend="npu", fullgraph=True, dynamic=True)
def twice(x):
    return x * 2

for rows in (3, 4):
    y = twice(torch.ones(rows, 8).npu())
    print(tuple(y.shape), y.device.type, y.sum().item())
"""


class Decoder(nn.Module):
    """Two quantised linears around an operator that GE has no converter for, and one in floating point."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down, self.head = nn.Linear(64, 128), nn.Linear(128, 64), nn.Linear(64, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.special.bessel_j0(self.down(torch.nn.functional.silu(self.up(x)))))


@pytest.fixture(scope="module")
def dry_run() -> DryRun:
    torch.manual_seed(0)
    model = Decoder().half().npu().eval()
    quantize_(model, DynamicW8A8(), lambda _, name: name != "head")
    return graph_quant.plan(model, torch.randn(4, 64).half().npu(), dynamic=True)


def test_operators_without_a_converter_have_source_lines(dry_run) -> None:
    (graph,) = dry_run.graphs
    (finding,) = graph.unlowered
    assert finding.what.startswith("aten.special_bessel_j0.default: ")
    assert "test_dry_run.py" in finding.where
    assert "bessel_j0(" in finding.where
    assert not dry_run.ok


def test_floating_point_parts_are_listed(dry_run) -> None:
    (graph,) = dry_run.graphs
    assert [finding.what.partition("(")[0] for finding in graph.floats] == ["MatMulV2"]
    assert [finding.what for finding in graph.islands] == ["QuantBatchMatmulV3 → DynamicQuant: Swish"]


def test_costs_use_the_sizes_of_the_call(dry_run) -> None:
    text = str(dry_run)
    (graph,) = dry_run.graphs
    assert 4 in graph.sizes.values()
    assert " at s" in text
    assert "=4: " in text
    # 2 multiplications and additions for each weight and row, quantised and not; the rest is small
    exact = 2 * 4 * (64 * 128 + 128 * 64 + 64 * 8)
    flops = dry_run.as_json()["graphs"][0]["flops"]
    assert exact <= flops <= 1.1 * exact


def test_least_time_on_a_chip_follows_from_its_peaks(dry_run, tmp_path: Path, capsys) -> None:
    moved = dry_run.as_json()["graphs"][0]["bytes"]
    (line,) = [line for line in dry_run.lines("Ascend910B3") if "µs on Ascend910B3" in line]
    least = float(line.split()[2])
    # nothing is faster than its bytes; what is bound by something else takes longer
    assert least >= moved / (1.6 * 2**40) * 1e6 * 0.99 - 0.05
    assert "not measured" in line
    script = tmp_path / "x.py"
    script.write_text("x = 1")
    assert main(["plan", str(script), "--chip", "Foo"]) == 2
    assert "A2, A3" in capsys.readouterr().err


def test_breaks_and_refusals_have_source_lines(tmp_path: Path, capsys) -> None:
    script = tmp_path / "breaking.py"
    script.write_text(BREAKING)
    assert main(["plan", str(script), "--", "given"]) == 1
    out = capsys.readouterr().out
    assert "value ['given']" in out
    assert "graph breaks:" in out
    assert f'{script}:7: print("value", sys.argv[1:])' in out
    assert "\n  stops: npu_dynamic_quant: input must have 2 to 8 dimensions, got 1: [4] (line 8: " in out
    assert "does not lower as a whole: 1 graph break, stopped before its end" in out


def test_only_breaks_of_the_script_are_listed(tmp_path: Path, capsys) -> None:
    """Below an eager operator the host runs Python of its own, which the user cannot change."""
    script = tmp_path / "branch.py"
    script.write_text(
        "import torch, torch_npu\n"
        "def double(x):\n"
        "    if x.sum() > 0:\n"
        "        return x * 2\n"
        "    return x + 1\n"
        "torch.compile(double, backend='npu')(torch.ones(2, 3).npu())\n"
    )
    assert main(["plan", str(script)]) == 1
    out = capsys.readouterr().out
    assert f"a branch on the values of a tensor  # {script}:3: if x.sum() > 0:" in out
    assert "does not lower as a whole: 1 graph break\n" in out
    assert "graph_quant" not in out.replace(str(tmp_path), "")


def test_caught_refusals_are_listed(tmp_path: Path, capsys) -> None:
    script = tmp_path / "catching.py"
    script.write_text(
        "import torch, torch_npu\n"
        "@torch.compile(backend='npu')\n"
        "def row(x):\n"
        "    return torch_npu.npu_dynamic_quant(x)\n"
        "for _ in range(2):\n"
        "    try:\n"
        "        row(torch.ones(4).npu().half())\n"
        "    except RuntimeError:\n"
        "        print('went on')\n"
    )
    assert main(["plan", str(script)]) == 1
    out = capsys.readouterr().out
    assert out.count("went on\n") == 2
    refused = "    npu_dynamic_quant: input must have 2 to 8 dimensions, got 1: [4]"
    assert f"{refused}  # {script}:4: return torch_npu.npu_dynamic_quant(x)\n" in out
    assert out.count(refused) == 1
    assert out.endswith("does not lower as a whole: 1 call refused\n")


def test_script_continues_with_zeros_of_the_right_shape(tmp_path: Path, capsys) -> None:
    script = tmp_path / "compiling.py"
    script.write_text(COMPILING)
    assert main(["plan", str(script)]) == 0
    out = capsys.readouterr().out
    assert "(3, 8) npu 0.0\n(4, 8) npu 0.0\n" in out
    assert "1 graph, lowered but not executed" in out
    assert ": 1 operator becomes " in out
    assert out.endswith("everything lowers\n")


UNKNOWN_SIZES = """
import torch, torch_npu

torch._dynamo.config.capture_dynamic_output_shape_ops = True

@torch.compile(backend="npu", fullgraph=True, dynamic=True)
def chosen(x, w):
    return x[torch.nonzero(x[:, 0] > 0).flatten()] @ w

print(tuple(chosen(torch.randn(8, 64).half().npu(), torch.randn(64, 32).half().npu()).shape))
"""


def test_data_dependent_sizes_are_unknown(tmp_path: Path, capsys) -> None:
    script = tmp_path / "unknown.py"
    script.write_text(UNKNOWN_SIZES)
    assert main(["plan", str(script), "--chip", "Ascend910B3"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("(1, 32)\n")
    assert "? B at the peak" in out
    assert re.search(r"cost at .*: [^,]*u\d[^,]* B moved", out)
    assert re.search(r"without \d nodes whose sizes are not known", out)
    assert main(["plan", str(script), "--chip", "Ascend910B3", "--json"]) == 0
    captured = capsys.readouterr()
    (graph,) = json.loads(captured.out)["graphs"]  # the script's own output goes to stderr
    assert "(1, 32)" in captured.err
    assert graph["bytes"] is None
    assert graph["nodes_of_unknown_size"] > 0


def test_least_time_of_a_product_by_hand(tmp_path: Path, capsys) -> None:
    script = tmp_path / "product.py"
    script.write_text(
        "import torch\nmodel = torch.matmul\n"
        "inputs = torch.empty(512, 4096).half().npu(), torch.empty(4096, 8192).half().npu()\n"
    )
    assert main(["plan", str(script), "--chip", "Ascend910B3", "--json", "--no-dynamic"]) == 0
    (graph,) = json.loads(capsys.readouterr().out)["graphs"]
    assert graph["flops"] == 2 * 512 * 4096 * 8192
    assert graph["bytes"] == 2 * (512 * 4096 + 4096 * 8192 + 512 * 8192)
    assert graph["microseconds"] == pytest.approx(graph["flops"] / 313e6, rel=0.01)


def test_script_may_exit_because_of_its_results(tmp_path: Path, capsys) -> None:
    script = tmp_path / "judging.py"
    script.write_text(COMPILING + "\nraise SystemExit(1)\n")
    assert main(["plan", str(script)]) == 0
    assert capsys.readouterr().out.endswith("everything lowers\n")


def test_function_computes_after_a_dry_run() -> None:
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    x = torch.ones(3).npu()
    assert graph_quant.plan(twice, x).ok
    assert torch.compile(twice, backend="npu")(x).tolist() == [2, 2, 2]


def test_json_and_usage_errors(tmp_path: Path, capsys) -> None:
    script = tmp_path / "empty.py"
    script.write_text("x = 1\n")
    assert main(["plan", str(script)]) == 2
    assert "nothing was compiled for the NPU" in capsys.readouterr().out
    assert main(["plan", str(tmp_path / "nosuch.py")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert main(["plan", str(script), "--model", "decoder"]) == 2
    assert "it defines no `decoder`" in capsys.readouterr().err
    assert main(["plan", "--nosuch", str(script)]) == 2
    assert "plan has no option --nosuch" in capsys.readouterr().err
    script.write_text("import torch\nmodel = torch.nn.ReLU()\ninputs = torch.ones(2).npu()\n")
    assert main(["plan", str(script), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["ok"]
    assert report["graphs"][0]["nodes"]["Relu"] == 1


@pytest.mark.parametrize(
    "body",
    [
        "torch._dynamo.graph_break(); return x + 1",
        "[torch._dynamo.graph_break() for _ in range(2)]; return x + 1",
        "\n  for _ in range(2):\n    x = x + 1\n    torch._dynamo.graph_break()\n  return x",
    ],
    ids=["first", "comprehension", "loop"],
)
def test_break_without_a_graph_is_listed(tmp_path: Path, capsys, body: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(f"import torch\ndef model(x): {body}\ninputs = torch.ones(2).npu()\n")
    assert main(["plan", str(script)]) == 1
    assert "graph breaks:\n    Call to `torch._dynamo.graph_break()`" in capsys.readouterr().out


def test_output_of_the_script_does_not_mix_with_json(tmp_path: Path, run_python) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        COMPILING + 'import os\nprint("{")\nos.write(1, b"}\\n")\nos.system("echo from a child")\nos.chdir("/")\n'
    )
    done = run_python(
        "import sys; from graph_quant.cli import main; sys.exit(main(sys.argv[1:]))", "plan", script, "--json"
    )
    assert done.returncode == 0
    assert json.loads(done.stdout)["ok"]
    assert "from a child" in done.stderr


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"def (", "it is no Python script: SyntaxError: "),
        (b"\0\xff", "it is no Python script: "),
        (b"import torch\nmodel = torch.relu\ndef inputs(): raise KeyError(1)\n", "inputs stops: KeyError: 1 (line 3: "),
    ],
)
@pytest.mark.parametrize("command", ["plan", "verify"])
def test_invalid_scripts_are_usage_errors(tmp_path: Path, capsys, command: str, content: bytes, message: str) -> None:
    script = tmp_path / "script.py"
    script.write_bytes(content)
    assert main([command, str(script)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"graph-quant: {script}: {message}")
    assert error.count("\n") == 1
