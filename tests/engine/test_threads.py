"""Graphs compile and run in several threads at once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

Compile = Callable[..., Any]


def test_threads_compile_and_run_at_the_same_time(compile_npu: Compile) -> None:
    def work(number: int) -> list[float]:
        def function(x: torch.Tensor) -> torch.Tensor:
            return torch.relu(x * number) + x.sum(-1, keepdim=True)

        compiled = compile_npu(function)
        results = []
        for size in range(2, 6):
            x = torch.arange(float(size)).expand(number + 1, size).contiguous()
            results.append(bool(torch.equal(compiled(x), function(x))))
        return results

    with ThreadPoolExecutor(4) as pool:
        assert all(all(results) for results in pool.map(work, range(6)))


def test_all_threads_share_one_compiled_graph(compile_npu: Compile) -> None:
    compiled = compile_npu(lambda x: torch.softmax(x, -1) @ x.mT)
    inputs = [torch.randn(16, 16) for _ in range(32)]
    compiled(inputs[0])
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(compiled, inputs))
    for x, result in zip(inputs, results, strict=True):
        torch.testing.assert_close(result, torch.softmax(x, -1) @ x.mT)


FIRST_USE = """
import threading
import graph_quant, torch, torch_npu

together, results = threading.Barrier(4), {}

def use(number):
    together.wait()
    x = torch.ones(4, 3).npu()
    results[number] = torch.compile(lambda x: (x * 2).sum(0) + number, backend="npu", dynamic=True)(x).tolist()

threads = [threading.Thread(target=use, args=(number,)) for number in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert results == {number: [8.0 + number] * 3 for number in range(4)}, results
"""


def test_four_threads_use_the_backend_for_the_first_time() -> None:
    """The first use imports TorchAir; in a process of its own, as that happens once."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FIRST_USE], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
