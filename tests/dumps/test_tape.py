"""graph-quant inspect of a captured graph."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import torch_npu  # noqa: F401
from graph_quant.cli import main


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    """Two streams; the third result takes the memory of the first."""
    x = torch.ones(2, 3).npu()
    # Streams come from a pool in turn: the one that captures by default may come again, two in a row are not the same.
    capturing, side = torch.npu.Stream(), torch.npu.Stream()
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph, stream=capturing):
        doubled = x * 2
        side.wait_stream(torch.npu.current_stream())
        with torch.npu.stream(side):
            x.add_(1)
        torch.npu.current_stream().wait_stream(side)
        squared = doubled.square()
        del doubled
        _ = (squared + x) - 1
    path = tmp_path / "tape.json"
    with pytest.warns(UserWarning, match="debug_dump"):
        graph.debug_dump(str(path))
    return path


def test_a_tape_is_shown_task_by_task(tape: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(tape)]) == 0
    title, *lines = capsys.readouterr().out.splitlines()
    assert title == "# captured graph: 9 tasks on 2 streams, 1 inputs, 1 reused addresses"
    calls = [line.split("  ", 2)[2] for line in lines]
    assert calls[0] == "aten::mul.Tensor(input0) -> float32[2, 3]"
    assert calls[2] == "wait for %1"
    assert calls[3] == "aten::add_.Tensor(input0) -> float32[2, 3]"
    assert calls[6].startswith("aten::pow.Tensor_Scalar(%0) -> float32[2, 3]")
    assert calls[7] == "aten::add.Tensor(%6, %3) -> float32[2, 3]  # in the memory of %0"
    assert len({line.split("  ")[1] for line in lines}) == 2


def test_a_tape_as_json_and_as_a_graph(tape: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(tape), "--format", "json"]) == 0
    tasks = json.loads(capsys.readouterr().out)
    assert tasks[7]["sources"] == [6, 3]
    assert main(["inspect", str(tape), "--format", "dot"]) == 0
    drawn = capsys.readouterr().out
    assert "t6 -> t7" in drawn
    assert "t0 -> t7 [style=dotted, label=memory];" in drawn
    assert main(["inspect", str(tape), "--format", "onnx"]) == 2
    assert "for a captured graph the format must be text, json or dot" in capsys.readouterr().err


def test_other_files_are_refused_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "other.json"
    path.write_text('[{"name": "x"}]')
    assert main(["inspect", str(path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
