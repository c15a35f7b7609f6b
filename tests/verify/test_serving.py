"""Steps of a serving engine: kernels of replays and of eager calls, the first that differs, and the report."""

from __future__ import annotations

import json

import pytest
import torch
import torch_npu
from graph_quant.host import capture
from graph_quant.host.capture import TracedKernel
from graph_quant.verification import serving
from graph_quant.verification.report.report import Report, Status, Thresholds
from graph_quant.verification.serving.findings import Findings, StepDifference, different, read_findings
from graph_quant.verification.serving.kernels import find_first_difference
from graph_quant.verification.serving.reports import add_steps, collect_steps


@pytest.fixture
def _keeps_results(monkeypatch) -> None:
    from graph_quant.host.capture import tape

    monkeypatch.setattr(tape.observers, "keeps_results", True)


@pytest.mark.usefixtures("_keeps_results")
def test_trace_has_the_kernels_of_calls_and_of_replays() -> None:
    x, weight, gamma = torch.randn(4, 8).npu(), torch.randn(8, 8).npu(), torch.ones(8).npu()

    def step() -> torch.Tensor:
        return torch_npu.npu_rms_norm(x @ weight, gamma)[0].relu()

    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        step()
    x.copy_(torch.randn(4, 8))
    with capture.trace(lambda: "") as replayed:
        graph.replay()
    with capture.trace(lambda: "layers.0") as called:
        step()
    step()  # after the block, nothing is collected
    names = ["aten::mm", "npu::npu_rms_norm", "aten::relu"]
    assert [kernel.operator for kernel in replayed] == [kernel.operator for kernel in called] == names
    assert {kernel.module for kernel in called} == {"layers.0"}
    assert find_first_difference(replayed, called, 4, 4) == "no kernel that both run differs"
    assert torch.equal(called[0].results[0], (x @ weight).cpu())


@pytest.mark.usefixtures("_keeps_results")
def test_trace_sees_a_stale_address_of_a_captured_graph() -> None:
    inputs = {"now": torch.randn(2, 8).npu()}

    def step() -> torch.Tensor:
        return (inputs["now"] * 2).relu()

    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        step()
    captured = inputs["now"]  # the engine wrote the next step's input to other memory
    inputs["now"] = captured + 1
    with capture.trace(lambda: "") as replayed:
        graph.replay()
    with capture.trace(lambda: "model.layers.3.mlp") as called:
        step()
    text = find_first_difference(replayed, called, 2, 2)
    assert text.startswith(
        "the first kernel that differs is aten::mul.Tensor (kernel 0 of the step) in model.layers.3.mlp"
    )
    assert "of float32[2,8]" in text


def _kernel(operator: str, result: torch.Tensor, module: str = "") -> TracedKernel:
    return TracedKernel(operator, (result,), module)


def test_rows_of_padding_are_not_compared() -> None:
    eager = torch.arange(8.0).reshape(4, 2)
    graph = eager.clone()
    graph[3] = -1
    pair = [_kernel("npu::npu_swiglu", graph)], [_kernel("npu::npu_swiglu", eager)]
    assert find_first_difference(*pair, tokens=3, padded=4) == "no kernel that both run differs"
    assert "2 of 8 values differ by up to 8" in find_first_difference(*pair, tokens=4, padded=4)


def test_kernels_of_one_side_are_named_with_their_layer() -> None:
    x = torch.ones(2, 2)
    eager = [
        _kernel("npu::npu_gelu", x, "layers.0.mlp"),
        _kernel("npu::npu_rms_norm", x, "layers.1.attn"),
        _kernel("npu::npu_rotary_mul", x, "layers.1.attn"),
        _kernel("npu::npu_swiglu", x, "layers.1.attn"),
    ]
    graph = [_kernel("triton::norm_rope", x), _kernel("npu::npu_swiglu.out", x + 1)]
    text = find_first_difference(graph, eager, 2, 2)
    assert text == (
        "the first kernel that differs is npu::npu_swiglu.out (kernel 1 of the step) in layers.1.attn: "
        "4 of 4 values differ by up to 1 of float32[2,2]; in this layer only the graph runs norm_rope, "
        "only eager execution npu_rms_norm, npu_rotary_mul"
    )


def _difference(step: int = 3) -> StepDifference:
    pair = torch.zeros(2, 2), torch.full((2, 2), 0.5)
    return different("FULL graph for 4 tokens", step, "hidden states", pair, "the first kernel …")


def test_findings_are_read_by_another_process(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setenv(serving.VARIABLE, str(tmp_path))
    findings = Findings()
    findings.add("PIECEWISE graph for 2 tokens", None)
    findings.add("FULL graph for 4 tokens", None)
    findings.add("FULL graph for 4 tokens", _difference(3))
    findings.add("FULL graph for 4 tokens", _difference(4))
    assert list(read_findings(tmp_path)) == [findings]
    printed = capsys.readouterr().err.splitlines()  # once for each graph
    assert printed == [
        "graph-quant verify: FULL graph for 4 tokens, step 3: hidden states 4 of 4 values differ by up to 0.5; "
        "the first kernel …"
    ]


@pytest.mark.parametrize(
    ("limit", "statuses"), [(None, [Status.EQUAL, Status.DIFFERS]), (1.0, [Status.EQUAL, Status.CLOSE])]
)
def test_report_has_a_line_for_each_graph(limit: float | None, statuses: list[Status]) -> None:
    with collect_steps() as steps:
        findings = Findings()
        findings.add("PIECEWISE graph for 2 tokens", None)
        findings.add("FULL graph for 4 tokens", _difference())
    report = Report("script.py", "the host NPU", Thresholds(limit, None))
    add_steps(report, steps)
    assert [output.status for output in report.outputs] == statuses
    assert report.ok is (limit is not None)
    assert report.compared
    json.loads(report.to_json())
