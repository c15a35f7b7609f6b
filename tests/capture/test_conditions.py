"""Conditional nodes: a branch of a captured graph is replayed if its condition holds at that time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
import torch_npu  # noqa: F401
from graph_quant.cli import main
from torch import Tensor

pytestmark = pytest.mark.skipif(
    not hasattr(torch.npu.NPUGraph, "begin_capture_to_if_node"),
    reason="NPUGraph.begin_capture_to_if_node is absent in this release of torch_npu",
)


@contextmanager
def branch(graph: torch.npu.NPUGraph, condition: Tensor) -> Iterator[None]:
    """As torch_npu captures the branches of torch.cond."""
    graph.begin_capture_to_if_node(condition)
    try:
        yield
    finally:
        graph.end_capture_to_conditional_node()


class Nested:
    """``2 * (total + (10 if outer) + (100 if outer and inner))``, with conditions in tensors on the device."""

    def __init__(self) -> None:
        self.outer, self.inner = torch.tensor([True, True]).npu().unbind()
        self.total = torch.zeros(3).npu()
        self.graph = torch.npu.NPUGraph()
        with torch.npu.graph(self.graph):
            with branch(self.graph, self.outer):
                self.total.add_(10)
                with branch(self.graph, self.inner):
                    self.total.add_(torch.full_like(self.total, 100))
            self.result = self.total * 2


def test_branches_are_replayed_if_their_conditions_hold() -> None:
    nested = Nested()
    assert not nested.total.any()
    for outer, inner, expected in ((1, 1, 220), (1, 0, 20), (0, 1, 0), (0, 0, 0), (1, 1, 220)):
        nested.total.zero_()
        nested.outer.fill_(outer)
        nested.inner.fill_(inner)
        nested.graph.replay()
        assert nested.result.tolist() == [expected] * 3


def test_branch_can_be_captured_on_the_stream_of_its_graph() -> None:
    for _ in range(33):  # torch_npu takes the streams of branches, in turn, from a pool of 32
        nested = Nested()
        nested.graph.replay()
        assert nested.result.tolist() == [220.0] * 3


FORBIDDEN = {
    "item": (lambda x: x.sum().item(), "aten::_local_scalar_dense: operation not permitted"),
    "synchronise": (lambda x: torch.npu.synchronize(), "aclrtSynchronizeDevice: operation not permitted"),  # noqa: ARG005
    "random numbers": (torch.rand_like, "RNG op during graph capture but generator is not registered"),
    "of the user": (lambda x: {}["mine"], "mine"),  # noqa: ARG005
}


@pytest.mark.parametrize("name", list(FORBIDDEN))
def test_error_in_a_branch_invalidates_the_graph(name: str) -> None:
    call, message = FORBIDDEN[name]
    x, condition = torch.ones(3).npu(), torch.tensor(True).npu()
    stream, graph = torch.npu.current_stream(), torch.npu.NPUGraph()
    with pytest.raises((RuntimeError, KeyError)) as raised, torch.npu.graph(graph), branch(graph, condition):
        call(x)
    assert message in f"{raised.value}{raised.value.__context__}"
    assert torch.npu.current_stream() == stream
    assert (x + 1).sum().item() == 6.0


def test_open_branch_ends_with_the_capture() -> None:
    condition, stream = torch.tensor(True).npu(), torch.npu.current_stream()
    for _ in range(33):  # once on the graph's own stream
        graph = torch.npu.NPUGraph()
        with pytest.raises(RuntimeError, match=r"same stream|Invalid end capture model"), torch.npu.graph(graph):
            graph.begin_capture_to_if_node(condition)
        assert torch.npu.current_stream() == stream
        assert condition.logical_not().item() is False
        del graph
        torch.npu.set_stream(stream)  # torch_npu puts the stream back that the branch was begun on


def test_trace_shows_condition_and_branch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "tape.json"
    with pytest.warns(UserWarning, match="debug_dump"):
        Nested().graph.debug_dump(str(path))
    assert main(["inspect", str(path)]) == 0
    calls = [line.split("  ", 2)[2] for line in capsys.readouterr().out.splitlines()[1:]]
    assert calls[2] == "if(%1)"
    assert calls[3].startswith("  aten::add_.Tensor(")
    assert calls[6] == "  if(%5)"
    assert calls[8].startswith("    aten::add_.Tensor(%3")
    assert calls[9].startswith("aten::mul.Tensor(%8)")
