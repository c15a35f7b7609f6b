"""Records: another package may define them, and their rules run once per trace."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch_npu
from graph_quant import meta

from support.all_calls import INT4
from support.tensors import ends, f16, f32

TINY = """
import torch
from graph_quant.meta import Plan, Result, operator

torch.library.define("tiny::halve", "(Tensor x) -> Tensor")


def compute(x):
    return x / 2


@operator("tiny::halve", reference=compute)
def halve(rules, x):
    rules.rank("x", x, 2)
    return Plan((Result(tuple(x.shape), x.dtype),))
"""
LOWERING = """
import tiny
from graph_quant.converters.lowering import lowers
from torchair._ge_concrete_graph import ge_apis as ge


@lowers(tiny.halve)
def lower(x):
    return ge.Mul(x, 0.5)
"""
USE = """
import graph_quant, torch, torch_npu
x = torch.arange(6.0).reshape(2, 3).npu()
halve = torch.ops.tiny.halve
print(halve(x).device.type, halve(x).tolist())
print(torch.compile(lambda x: halve(x), backend="npu", fullgraph=True, dynamic=True)(x).tolist())
try:
    halve(x[0])
except RuntimeError as refusal:
    print(refusal)
"""


def test_another_package_brings_an_operator(
    tmp_path: Path, run_python: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    (tmp_path / "tiny.py").write_text(TINY)
    (tmp_path / "tiny_lowering.py").write_text(LOWERING)
    info = tmp_path / "tiny-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[graph_quant.operators]\ntiny = tiny\n[graph_quant.converters]\ntiny = tiny_lowering\n"
    )
    done = run_python(USE, PYTHONPATH=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "npu [[0.0, 0.5, 1.0], [1.5, 2.0, 2.5]]",
        "[[0.0, 0.5, 1.0], [1.5, 2.0, 2.5]]",
        "halve: x must have 2 dimensions, got 1: [3]",
    ]


def test_a_reference_asks_for_nothing_that_the_record_lacks() -> None:
    with pytest.raises(TypeError, match="asks for y, which the record lacks"):

        @meta.operator("npu_nothing", reference=lambda x, y: (x, y))
        def nothing(rules: meta.Rules, x: torch.Tensor) -> meta.Plan: ...


@pytest.mark.parametrize("dynamic", [False, True])
def test_rules_run_once_in_tracing_and_once_in_lowering(dynamic: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    record = meta.RECORDS["npu::npu_group_quant"]
    calls = []
    rules = record.rules
    assert rules is not None

    def count(*args: object) -> meta.Plan:
        calls.append(args)
        return rules(*args)

    monkeypatch.setattr(record, "rules", count)
    torch._dynamo.reset()
    quantise = torch.compile(
        lambda x, s, g: torch_npu.npu_group_quant(x, s, g, dst_dtype=INT4),
        backend="npu",
        fullgraph=True,
        dynamic=dynamic,
    )
    quantise(f16(6, 16).npu(), f32(2, 16).npu(), ends(2, 6).npu())
    assert len(calls) == 2
