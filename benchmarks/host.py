"""The host NPU: its overhead of an import and of an eager operator, as ratios and differences within one run."""

import py_compile
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

_IMPORT = """
import time
start = time.perf_counter()
import graph_quant
own = time.perf_counter() - start
from graph_quant.start.activate import _actions

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


def start_cost(runs: int = 100) -> dict[str, float]:
    """Time the start of a Python with and without the file that `graph-quant enable` writes, installed as pip does."""
    import graph_quant_start
    from graph_quant.cli.enable import _LINE

    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=False)
        (site,) = Path(folder).glob("lib/python*/site-packages")
        py_compile.compile(shutil.copy(graph_quant_start.__file__, site))
        times: dict[bool, list[float]] = {True: [], False: []}
        for _ in range(runs):
            for enabled, taken in times.items():
                (site / "graph_quant_host.pth").write_text(_LINE if enabled else "")
                start = time.perf_counter()
                subprocess.run([f"{folder}/bin/python", "-c", "pass"], check=True)
                taken.append((time.perf_counter() - start) * 1e3)
    with_line, without = median(times[True]), median(times[False])
    return {"with ms": round(with_line, 2), "without ms": round(without, 2), "more ms": round(with_line - without, 2)}


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


def _numbers(code: str) -> list[float]:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return [float(word) for word in done.stdout.split()]
