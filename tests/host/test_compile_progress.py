"""A compilation shows its stages on a terminal, and nothing in a pipe."""

from __future__ import annotations

import io
import time

import pytest
import torch
import torch_npu  # noqa: F401
from graph_quant.start import compile_progress
from graph_quant.start.compile_progress import CompileProgress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_stages_are_shown_and_erased() -> None:
    terminal = Terminal()
    progress = CompileProgress(terminal, quiet_seconds=0)
    progress.begin()
    progress.enter("lowering", 3)
    progress.advance()
    while "1 of 3" not in terminal.getvalue():
        time.sleep(0.01)
    progress.end()
    assert "compiling: lowering 1 of 3 nodes, " in terminal.getvalue()
    while not terminal.getvalue().endswith("\r\x1b[K"):
        time.sleep(0.01)


def test_a_pipe_and_a_short_compilation_show_nothing() -> None:
    for stream in (io.StringIO(), Terminal()):
        progress = CompileProgress(stream, quiet_seconds=60)
        progress.begin()
        progress.end()
        assert stream.getvalue() == ""


def test_a_compilation_passes_through_the_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    progress = compile_progress.progress
    stages: dict[str, int] = {}
    enter = CompileProgress.enter
    monkeypatch.setattr(progress, "_stream", Terminal())

    def record(self: CompileProgress, stage: str, total: int = 0) -> None:
        stages[stage.partition(" ")[0]] = self._done
        enter(self, stage, total)

    monkeypatch.setattr(CompileProgress, "enter", record)
    compile_progress.report(torch._dynamo.callback.on_compile_start, torch._dynamo.callback.on_compile_end)
    torch.compile(lambda x: (x + 1).relu(), backend="npu")(torch.ones(3, device="npu"))
    assert list(stages) == ["tracing", "decomposing", "lowering", "simplifying"]
    assert stages["simplifying"] == 2
    assert progress._ended is None
