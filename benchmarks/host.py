"""The host NPU: what it adds to an import, and to an eager operator. Ratios and differences within one run."""

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from statistics import median
from typing import Any

_IMPORT = """
import time
start = time.perf_counter()
import graph_quant
own = time.perf_counter() - start
from graph_quant.host.activate import _actions

def timed(action):
    def run():
        global own
        before = time.perf_counter()
        action()
        own += time.perf_counter() - before
    return run

for table in (_actions._before, _actions._after):
    for name, action in list(table.items()):
        table[name] = timed(action)
start = time.perf_counter()
import torch, torch_npu
print(own * 1e3, (time.perf_counter() - start) * 1e3)
"""
_START = """
import sys, time
sys.path.insert(0, {site!r})
start = time.perf_counter()
{line}
print((time.perf_counter() - start) * 1e3)
"""


def measure() -> dict[str, Any]:
    """Return all figures."""
    return {
        "import": import_cost(),
        "start-up line of `enable`": start_cost(),
        "eager operators": eager_cost(),
    }


def import_cost(runs: int = 5) -> dict[str, float]:
    """Time what graph_quant adds to the import of torch and torch_npu."""
    figures = [_numbers(_IMPORT) for _ in range(runs)]
    own, whole = median(f[0] for f in figures), median(f[1] for f in figures)
    return {
        "own ms": round(own, 1),
        "torch and torch_npu with it ms": round(whole, 1),
        "share": round(own / whole, 3),
    }


def start_cost(runs: int = 15) -> dict[str, float]:
    """Time the line that `graph-quant enable` adds to the start of every Python, as an installed wheel has it."""
    import graph_quant_start
    from graph_quant.cli.enable import _LINE

    with tempfile.TemporaryDirectory() as site:
        shutil.copy(graph_quant_start.__file__, site)
        code = _START.format(site=site, line=_LINE.strip())
        return {"ms": round(median(_numbers(code, "-S")[0] for _ in range(runs)), 2)}


def eager_cost() -> dict[str, dict[str, float]]:
    """Time small operators on npu:0 and on the CPU: the difference is what the device costs."""
    import graph_quant  # noqa: F401
    import torch

    operators: dict[str, Callable[[torch.Tensor], object]] = {
        "add": lambda x: x + x,
        "exp": torch.exp,
        "add_": lambda x: x.add_(0),
        "matmul": lambda x: x @ x,
        "softmax": lambda x: x.softmax(-1),
        "sum": lambda x: x.sum(),
        "cat": lambda x: torch.cat((x, x)),
    }
    figures = {}
    for name, operator in operators.items():
        cpu, npu = torch.ones(4, 4), torch.ones(4, 4, device="npu")
        on_cpu, on_npu = _microseconds(operator, cpu, npu)
        figures[name] = {
            "cpu µs": round(on_cpu, 1),
            "npu µs": round(on_npu, 1),
            "more µs": round(on_npu - on_cpu, 1),
        }
    return figures


def _microseconds(operator: Callable[[Any], object], *inputs: Any) -> list[float]:
    """Return the median time per input; rounds alternate between them, so that both see the same machine."""
    times: list[list[float]] = [[] for _ in inputs]
    for _ in range(200):
        for taken, value in zip(times, inputs, strict=True):
            start = time.perf_counter()
            for _ in range(20):
                operator(value)
            taken.append((time.perf_counter() - start) / 20 * 1e6)
    return [median(taken) for taken in times]


def _numbers(code: str, *options: str) -> list[float]:
    done = subprocess.run([sys.executable, *options, "-c", code], capture_output=True, text=True, check=True)
    return [float(word) for word in done.stdout.split()]
