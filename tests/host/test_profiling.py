"""Profilers: torch.profiler records the CPU, torch_npu.profiler reports that it needs an NPU."""

from __future__ import annotations

import torch
import torch_npu
from torch.profiler import ProfilerActivity, profile


def test_torch_profiler_records_cpu() -> None:
    x = torch.ones(4, 4).npu()
    for activities in (None, [ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]):
        with profile(activities=activities) as recorded:
            (x @ x).relu()
        assert {"aten::matmul", "aten::relu"} <= {event.key for event in recorded.key_averages()}


def test_torch_npu_profiler_needs_an_npu(capfd, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    with torch_npu.profiler.profile(on_trace_ready=torch_npu.profiler.tensorboard_trace_handler("traces")):
        assert (torch.ones(3).npu() + 1).tolist() == [2.0, 2.0, 2.0]
    output = capfd.readouterr()
    assert "torch_npu.profiler needs an NPU; this process runs on the host" in output.out + output.err
    assert list(tmp_path.rglob("*.*")) == []
