"""Chips: their names, and that nothing answers with another chip's rules, kernels or rounding."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch_npu
from graph_quant import chip, plan
from graph_quant.chip import A2, A2_AND_A3, A3, ASCEND_310P, ASCEND_950, UndescribedError
from graph_quant.cli import main
from graph_quant.dumps import lint_for, load
from graph_quant.host.engine import UnsupportedGraphError, import_graph
from graph_quant.host.kernels import KERNELS
from graph_quant.meta import RECORDS
from graph_quant.start.compiler_patches import skip_undescribed_patterns

from support.single_node_graph import SingleNodeGraph
from support.tensors import f16

UPSTREAM_BLOCK = str(Path(__file__).parent / "dumps" / "data" / "upstream_block.txt")


@pytest.fixture
def on_950() -> Iterator[None]:
    with chip.use(ASCEND_950):
        yield


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A2", A2),
        ("a3", A3),
        ("950", ASCEND_950),
        ("310p", ASCEND_310P),
        ("Ascend910B2C", A2),
        ("Ascend910_9362", A3),
        ("Ascend950PR_9589", ASCEND_950),
        ("Ascend95H", ASCEND_950),
    ],
)
def test_chips_are_found_by_short_and_device_names(text: str, expected: chip.Chip) -> None:
    assert chip.find_chip(text) is expected


@pytest.mark.parametrize("name", ["Ascend910A", "Ascend910ProB", "Ascend310B4"])
def test_other_devices_have_nothing_described(name: str) -> None:
    with chip.use(chip.of_device(name)), pytest.raises(UndescribedError, match=f"not described for {name}"):
        torch_npu.npu_group_quant(f16(2, 16), torch.ones(1, 16), torch.tensor([2]), dst_dtype=torch.int8)


def test_every_record_is_described_for_a2_and_a3_or_is_of_950() -> None:
    assert {record.chips for record in RECORDS.values()} <= {A2_AND_A3, (*A2_AND_A3, ASCEND_950), (ASCEND_950,)}


def test_records_of_950_have_kernels_of_950() -> None:
    from graph_quant.meta import NODES

    nodes = {name: NODES[name] for name in NODES if ASCEND_950 in RECORDS[name].chips}
    assert all(ASCEND_950 in KERNELS[node].chips for node in nodes.values())


def _dequantise(x: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = torch_npu.npu_anti_quant(x, torch.ones(16, device=x.device), dst_dtype=torch.float16)
    return result


def _captured(x: torch.Tensor) -> None:
    with torch.npu.graph(torch.npu.NPUGraph()):  # type: ignore[attr-defined]
        _dequantise(x)


def _compiled(x: torch.Tensor) -> None:
    torch._dynamo.reset()
    torch.compile(_dequantise, backend="npu", fullgraph=True)(x)


@pytest.mark.parametrize("call", [_dequantise, _captured, _compiled], ids=["eager", "captured", "compiled"])
@pytest.mark.usefixtures("on_950")
def test_undescribed_operators_are_refused_by_name(call: Callable[[torch.Tensor], Any]) -> None:
    with pytest.raises(RuntimeError, match="npu_anti_quant: not described for Ascend 950 yet"):
        call(torch.ones(2, 16, dtype=torch.int8).npu())


@pytest.mark.usefixtures("on_950")
def test_undescribed_operators_are_refused_on_meta_tensors_and_by_plan() -> None:
    x = torch.ones(2, 16, dtype=torch.int8)
    with pytest.raises(UndescribedError, match="npu_anti_quant"):
        _dequantise(x.to("meta"))
    dry_run = plan(_dequantise, x.npu())
    assert not dry_run.ok
    assert "npu_anti_quant: not described for Ascend 950 yet" in str(dry_run)


@pytest.mark.usefixtures("on_950")
def test_operators_that_torchair_alone_lowers_are_refused() -> None:
    torch._dynamo.reset()
    with pytest.raises(RuntimeError, match="npu_mish: not described for Ascend 950 yet"):
        torch.compile(torch_npu.npu_mish, backend="npu", fullgraph=True)(f16(2, 16).npu())


@pytest.mark.usefixtures("on_950")
def test_nodes_of_another_chip_do_not_run() -> None:
    arguments = [torch.ones(2, 16, dtype=torch.int8), torch.ones(16)]
    graph = SingleNodeGraph(KERNELS["AscendAntiQuantV2"], arguments, {"dst_type": 1}, [True]).graph
    with pytest.raises(UnsupportedGraphError, match="no host kernel for AscendAntiQuantV2 on Ascend 950"):
        import_graph(graph)


@pytest.mark.usefixtures("on_950")
def test_conversions_to_narrow_floats_that_are_not_described_are_refused() -> None:
    x, e4m3 = f16(2, 16), torch.float8_e4m3fn
    with pytest.raises(UndescribedError, match=r"_to_copy from torch\.float16 to torch\.float8_e8m0fnu"):
        x.npu().to(torch.float8_e8m0fnu)
    with pytest.raises(UndescribedError, match=r"copy_ from torch\.int32"):
        torch.empty(2, 16, dtype=torch.uint8).npu().view(e4m3).copy_(x.to(torch.int32).npu())
    assert torch.zeros(2, dtype=torch.uint8).npu().view(e4m3).float().tolist() == [0.0, 0.0]


@pytest.mark.usefixtures("on_950")
def test_conversions_to_float8_do_not_saturate() -> None:
    x, e4m3 = torch.tensor([464.0, 465.0, -1e5, torch.inf, 2.7]), torch.float8_e4m3fn
    copied = torch.empty(5, dtype=torch.uint8).npu().view(e4m3).copy_(x.npu())
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: x.to(e4m3), backend="npu", fullgraph=True)(x.npu())
    for y in (x.npu().to(e4m3), copied, compiled, x.npu().to("cpu", e4m3)):
        assert y.float().isnan().tolist() == [False, True, True, True, False]
        assert y.float()[[0, 4]].tolist() == [448.0, 2.75]
    assert x.npu().to(torch.float8_e5m2).float().tolist() == [448.0, 448.0, -torch.inf, torch.inf, 2.5]


@pytest.mark.parametrize("mode", ["npu", "npugraph_ex"])
@pytest.mark.usefixtures("on_950")
def test_operators_of_pytorch_run(mode: str) -> None:
    x = f16(2, 16)
    torch._dynamo.reset()

    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.gelu(x) + torch.nn.functional.layer_norm(x, (16,))

    compiled = torch.compile(function, backend=mode, fullgraph=True)
    assert torch.equal(compiled(x.npu()).cpu(), function(x.npu()).cpu())


@pytest.mark.parametrize("on_a2", [True, False])
def test_fusions_to_undescribed_operators_are_left_out(on_a2: bool) -> None:
    registered = []

    class Manager:
        def register_pattern(self, search_fn: Any, replace_fn: Any, example_inputs: Any) -> None:
            registered.append((search_fn, replace_fn, example_inputs))

    skip_undescribed_patterns(SimpleNamespace(_PatternPassManager=Manager))  # type: ignore[arg-type]
    with chip.use(A2 if on_a2 else ASCEND_950):
        Manager().register_pattern(torch.relu, _dequantise, [torch.ones(2, 16, dtype=torch.int8)])
    assert bool(registered) is on_a2


def test_lint_checks_several_chips(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    chips = ["--chip", "A2", "--chip", "A3", "--chip", "950"]
    assert main(["lint", UPSTREAM_BLOCK, *chips]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "runs on Ascend A2, Ascend A3 and Ascend 950"
    monkeypatch.setitem(KERNELS, "DynamicQuant", replace(KERNELS["DynamicQuant"], chips=A2_AND_A3))
    assert main(["lint", UPSTREAM_BLOCK, *chips]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "warning: DynamicQuant: on Ascend 950: DynamicQuant is not described [undescribed-chip]" in lines
    assert lines[-1].startswith("runs on Ascend A2 and Ascend A3; on Ascend 950: ")
    ignored = ["lint", UPSTREAM_BLOCK, "--chip", "950", "--ignore", "undescribed-chip"]
    assert main(ignored) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "runs on Ascend 950"
    assert {finding.rule.id for finding in lint_for(load(UPSTREAM_BLOCK), [ASCEND_950])} == {"undescribed-chip"}


def test_lint_names_operators_that_a_chip_lacks(tmp_path: Path) -> None:
    dump = tmp_path / "graph.txt"
    dump.write_text(Path(UPSTREAM_BLOCK).read_text().replace('type: "DynamicQuant"', 'type: "DynamicMxQuant"'))
    findings = lint_for(load(str(dump)), [A2, ASCEND_950])
    assert {(finding.rule.id, finding.message) for finding in findings if "MxQuant" in finding.message} == {
        ("lacking-chip", "on Ascend A2: DynamicMxQuant is an operator of Ascend 950"),
        ("lacking-chip", "on Ascend A2: DynamicMxQuant has float4_e2m1, which the chip lacks"),
        ("lacking-chip", "on Ascend A2: DynamicMxQuant has float8_e8m0, which the chip lacks"),
    }


def test_unknown_chips_are_usage_errors(capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["lint", UPSTREAM_BLOCK], ["operators"], ["plan", "none.py"]):
        assert main([*command, "--chip", "A9"]) == 2
        assert "no chip is named A9; the chips are A2, A3, 950, 310P" in capsys.readouterr().err


def test_operators_lists_what_a_chip_has(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["operators", "npu_anti_quant", "--chip", "A3"]) == 0
    assert "1 eager, 1 in graphs" in capsys.readouterr().out
    assert main(["operators", "npu_anti_quant", "--chip", "950"]) == 0
    assert "0 eager, 0 in graphs, 1 neither" in capsys.readouterr().out


def test_plan_runs_a_script_for_several_chips(tmp_path: Any, capfd: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import torch, torch_npu\n"
        "print(torch.npu.get_device_name())\n"
        "fn = lambda x: torch_npu.npu_anti_quant(x, torch.ones(16).npu(), dst_dtype=torch.float16)\n"
        "torch.compile(fn, backend='npu')(torch.ones(2, 16, dtype=torch.int8).npu())\n"
    )
    assert main(["plan", str(script), "--chip", "A3", "--chip", "950"]) == 1
    out = capfd.readouterr().out
    assert "Ascend910_9392" in out
    assert "Ascend950PR_9589" in out
    assert out.splitlines()[-1] == "A3: lowers; 950: does not lower"
