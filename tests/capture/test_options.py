"""Options of npugraph_ex: how many graphs it captures, their memory pools, and the cache on disk."""

from __future__ import annotations

import os
from typing import Any

import npugraph_ex
import pytest
import torch
import torch_npu
from torch import Tensor

# Each is a compile; together they are all the options that change how a graph is captured or passed on.
OPTIONS: dict[str, dict[str, Any]] = {
    "one graph at most, with results of their own": {"capture_limit": 1, "clone_output": True},
    "the caller's inputs, and no passes": {
        "clone_input": False,
        "inplace_pass": False,
        "input_inplace_pass": False,
        "pattern_fusion_pass": False,
        "frozen_parameter": True,
    },
}
if "GRAPH_QUANT_EXAMPLES" in os.environ:
    OPTIONS |= {
        "captured anew": {"force_recapture": True, "capture_error_mode": "thread_local"},
        "super kernels": {"super_kernel_optimize": True},
        "streams looked through": {"deadlock_check": True, "remove_cat_ops": False, "remove_noop_ops": False},
    }


class Decoder(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gamma = torch.nn.Parameter(torch.rand(16).half())

    def forward(self, x: Tensor, residual: Tensor, cache: Tensor) -> tuple[Tensor, Tensor]:
        with npugraph_ex.scope.limit_core_num(4, 8):
            normed, _, total = torch_npu.npu_add_rms_norm(x, residual, self.gamma)
            cache.copy_(torch.cat([normed, total], -1))
            return normed * 2, total


@pytest.mark.filterwarnings("ignore:The capture_limit reached", "ignore:Because acl graph fixes")
@pytest.mark.parametrize("name", list(OPTIONS))
@torch.no_grad
def test_options_are_bitwise_equal_to_eager(name: str, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)  # what is looked through is written there
    torch._dynamo.reset()
    model = Decoder().npu()
    compiled = torch.compile(model, backend="npugraph_ex", options=OPTIONS[name], fullgraph=True, dynamic=True)
    got, wanted = [], []
    for rows in (4, 4, 3, 4, 3):
        x, residual = torch.randn(2, rows, 16).half().npu()
        caches = torch.zeros(2, rows, 32).half().npu()
        got.append([result.clone() for result in compiled(x, residual, caches[0])])
        wanted.append(model(x, residual, caches[1]))
        assert torch.equal(caches[0], caches[1])
    for results, others in zip(got, wanted, strict=True):
        assert all(torch.equal(one, other) for one, other in zip(results, others, strict=True))


def test_cloned_results_outlive_the_next_replay() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(torch.neg, backend="npugraph_ex", options={"clone_output": True}, dynamic=False)
    first = compiled(torch.ones(3).npu())
    compiled(torch.full((3,), 5.0).npu())
    assert first.tolist() == [-1.0, -1.0, -1.0]


class Kept(torch.nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return self.step(x)

    def step(self, x: Tensor) -> Tensor:
        return torch.relu(x) * 2


def test_compiled_model_is_cached_on_disk(tmp_path, monkeypatch) -> None:
    compiles: list[object] = []
    compiler = npugraph_ex.npu_fx_compiler
    monkeypatch.setattr(compiler, "_optimize_fx", _counting(compiler._optimize_fx, compiles))
    x = torch.randn(2, 3).npu()
    for count in (1, 1):
        torch._dynamo.reset()
        model = Kept()
        step = npugraph_ex.inference.cache_compile(model.step, cache_dir=str(tmp_path), dynamic=False)
        for _ in range(2):
            assert torch.equal(step(x), model.step(x))
        assert len(compiles) == count, "the second model is read from the disk"
    assert list(tmp_path.rglob("compiled_module"))


KEEPING = """
import sys
import graph_quant, torch, torch_npu, npugraph_ex, torchair

compiles = []
for compiler in (npugraph_ex, torchair):
    def counted(*args, optimize=compiler.npu_fx_compiler._optimize_fx, **kwargs):
        compiles.append(args)
        return optimize(*args, **kwargs)
    compiler.npu_fx_compiler._optimize_fx = counted

class Kept(torch.nn.Module):
    def ex(self, x):
        return torch.relu(x) * 2
    def overhead(self, x):
        return torch.relu(x) * 3

model, config = Kept(), torchair.CompilerConfig()
config.mode = "reduce-overhead"
x = torch.randn(2, 3).npu()
ex = npugraph_ex.inference.cache_compile(model.ex, cache_dir=sys.argv[1], dynamic=False)
overhead = torchair.inference.cache_compile(model.overhead, config=config, cache_dir=sys.argv[1], dynamic=False)
for _ in range(2):
    assert torch.equal(ex(x), model.ex(x))
    assert torch.equal(overhead(x), model.overhead(x))
print(len(compiles), "compiled")
"""


@pytest.mark.skipif("GRAPH_QUANT_EXAMPLES" not in os.environ, reason="two processes that compile: make coverage")
def test_new_process_reads_the_cache(run_python, tmp_path) -> None:
    for compiled in (2, 0):
        done = run_python(KEEPING, str(tmp_path))
        assert done.stdout.splitlines()[-1:] == [f"{compiled} compiled"], done.stderr


def _counting(function: Any, calls: list[object]) -> Any:
    def counted(*args: Any, **kwargs: Any) -> Any:
        calls.append(args)
        return function(*args, **kwargs)

    return counted
