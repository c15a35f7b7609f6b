"""TorchAir's compiler options: some work on the host, the others raise that they need an NPU."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torchair
from graph_quant.host.engine import HostGraph, import_graph
from torchair._ge_concrete_graph.ge_ir_pb2 import GraphDef, ModelDef

Compile = Callable[..., Any]


def function(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x) * 2


def test_graph_dump_is_written_and_can_be_run(compile_npu: Compile, tmp_path: Path) -> None:
    from google.protobuf import text_format

    config = torchair.CompilerConfig()
    config.debug.graph_dump.type = "txt"
    config.debug.graph_dump.path = str(tmp_path)
    x = torch.randn(2, 3)
    expected = compile_npu(function, config=config, dynamic=False)(x)
    (dump,) = tmp_path.glob("dynamo_optimized_*.txt")
    graph = text_format.Parse(dump.read_text(), GraphDef())
    assert torch.equal(import_graph(graph)(x)[0], expected)


def test_run_eagerly_bypasses_the_engine(compile_npu: Compile, loaded_graphs: list[HostGraph]) -> None:
    config = torchair.CompilerConfig()
    config.debug.run_eagerly = True
    x = torch.randn(2, 3)
    assert torch.equal(compile_npu(function, config=config)(x), function(x))
    assert not loaded_graphs


def test_a_profiler_sees_the_run_of_a_graph(compile_npu: Compile) -> None:
    compiled = compile_npu(function)
    x = torch.randn(2, 3)
    compiled(x)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        compiled(x)
    assert "npu_fx_compiler inference" in {event.key for event in profile.key_averages()}


def test_fx_summary_lists_operators(compile_npu: Compile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = torchair.CompilerConfig()
    config.debug.fx_summary.type = "csv"
    compile_npu(function, config=config)(torch.randn(2, 3))
    (summary,) = tmp_path.rglob("*.csv")
    assert "relu" in summary.read_text()


def test_cache_compile_runs_from_its_cache(tmp_path: Path) -> None:
    script = """
import graph_quant, torch, torchair
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)
        self.cached = torchair.inference.cache_compile(self.prompt, cache_dir="{cache}")
    def forward(self, x):
        return self.cached(x)
    def prompt(self, x):
        y = torch.relu(self.linear(x))
        part = x[1:]
        part.mul_(2)
        return y, y[1:], part
torch.manual_seed(0)
model, x = Model(), torch.ones(2, 4)
with torch.no_grad():
    results = model(x.clone())
    assert all(map(torch.equal, results, model.prompt(x.clone())))
    results[0].zero_()
    assert not results[1].any()
print("same")
""".format(cache=tmp_path / "cache")
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path)
        assert done.stdout.strip().endswith("same"), done.stderr[-2000:]
    assert list((tmp_path / "cache").rglob("compiled_module"))


def test_dynamo_export_writes_a_model(tmp_path: Path) -> None:
    torchair.dynamo_export(
        torch.randn(2, 3), model=torch.nn.ReLU(), export_path=str(tmp_path / "out"), export_name="relu", dynamic=False
    )
    (air,) = (tmp_path / "out").rglob("*.air")
    model = ModelDef()
    model.ParseFromString(air.read_bytes())
    assert "Relu" in {op.type for op in model.graph[0].op}


@pytest.mark.parametrize(
    ("switch", "words"),
    [
        (lambda config: setattr(config.aoe_config, "aoe_mode", "2"), "aoe_config.aoe_mode"),
        (lambda config: setattr(config.dump_config, "enable_dump", True), "dump_config.enable_dump"),
    ],
)
def test_device_options_raise_that_they_need_an_npu(
    compile_npu: Compile, switch: Callable[[Any], None], words: str
) -> None:
    config = torchair.CompilerConfig()
    switch(config)
    with pytest.raises(Exception, match="needs an NPU; this process runs on the host") as caught:
        compile_npu(function, config=config)(torch.randn(2, 3))
    assert words in str(caught.value)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_terminate_the_process(number: signal.Signals) -> None:
    script = f"import graph_quant, torch, torchair, os, time; os.kill(os.getpid(), {number:d}); time.sleep(20)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    if number == signal.SIGTERM:
        assert done.returncode == -signal.SIGTERM
    else:
        assert "KeyboardInterrupt" in done.stderr
        assert done.returncode != 0


def test_the_users_signal_handler_survives_the_import() -> None:
    script = """
import signal, os, graph_quant
signal.signal(signal.SIGTERM, lambda *_: print("mine", flush=True))
import torch, torchair
os.kill(os.getpid(), signal.SIGTERM)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, env=os.environ)
    assert "mine" in done.stdout, done.stderr[-1000:]
