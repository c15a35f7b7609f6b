"""GE nodes and compile time of the operators, beside those of torch_npu's own lowering, in one run.

Each operator is called `--calls` times in one graph, on sizes that are symbols, and compiled in turn by this
project and by upstream. Times are the best of `--rounds` and count only as their ratio. The time is that of
torch.compile up to a GE graph that could be loaded; running it is no part of it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import graph_quant  # noqa: F401 (before torch: it makes torch_npu loadable)
import torch
import torch_npu
import torchair
from graph_quant.upstream import upstream
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torchair._ge_concrete_graph.fx2ge_converter import GeConcreteGraph
from torchair.configs.compiler_config import CompilerConfig

INT4 = torch.quint4x2
X, ROWS = torch.ones(6, 16, dtype=torch.float16), torch.tensor([1, 6], dtype=torch.int32)
SCALES, ONE = torch.ones(2, 16), torch.ones(16, dtype=torch.float16)
A, B = torch.ones(4, 32, dtype=torch.int8), torch.ones(32, 16, dtype=torch.int8)
CALLS: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "group_quant int8": (lambda x, s, g: torch_npu.npu_group_quant(x, s, g, dst_dtype=torch.int8), (X, SCALES, ROWS)),
    "group_quant int4": (lambda x, s, g: torch_npu.npu_group_quant(x, s, g, dst_dtype=INT4), (X, SCALES, ROWS)),
    "quantize int8": (lambda x, s: torch_npu.npu_quantize(x, s, None, torch.qint8, -1, False), (X, ONE)),
    "quantize int4": (lambda x, s: torch_npu.npu_quantize(x, s, None, INT4, -1, False), (X, ONE)),
    "dynamic_quant int8": (lambda x: torch_npu.npu_dynamic_quant(x)[0], (X,)),
    "dynamic_quant_asymmetric int4": (lambda x: torch_npu.npu_dynamic_quant_asymmetric(x, dst_type=INT4)[0], (X,)),
    "trans_quant_param": (lambda s: torch_npu.npu_trans_quant_param(s), (SCALES[0],)),
    "quant_matmul bfloat16": (
        lambda a, b, s: torch_npu.npu_quant_matmul(a, b, s, output_dtype=torch.bfloat16),
        (A, B, SCALES[0]),
    ),
}


class GraphIsBuiltError(Exception):
    """Stops a compilation at the moment its GE graph could be loaded."""


def compile_once(function: Callable[..., Any], args: tuple[torch.Tensor, ...], calls: int) -> tuple[float, int]:
    """Seconds to a GE graph of `calls` calls, and its nodes without inputs and output."""
    graphs: list[Any] = []

    def stop(graph: GeConcreteGraph, *_args: Any, **_kwargs: Any) -> None:
        graphs.append(graph.graph)
        raise GraphIsBuiltError

    def repeated(*tensors: torch.Tensor) -> list[Any]:
        return [function(*tensors) for _ in range(calls)]

    torch._dynamo.reset()
    run, GeConcreteGraph.__call__ = GeConcreteGraph.__call__, stop
    start = time.perf_counter()
    try:
        backend = torchair.get_npu_backend(compiler_config=CompilerConfig())
        torch.compile(repeated, backend=backend, dynamic=True, fullgraph=True)(*args)
    except GraphIsBuiltError:
        pass
    finally:
        GeConcreteGraph.__call__ = run
    seconds = time.perf_counter() - start
    return seconds, sum(op.type not in ("Data", "NetOutput") for op in graphs[0].op)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=200, help="calls of the operator in one graph (default 200)")
    parser.add_argument("--rounds", type=int, default=3, help="times each compilation is repeated (default 3)")
    options = parser.parse_args()
    table = Table(title=f"{options.calls} calls in one graph, symbolic sizes, best of {options.rounds}")
    for heading in ("operator", "nodes a call", "upstream's", "compile time / upstream's"):
        table.add_column(heading, justify="left" if heading == "operator" else "right")
    total = [0.0, 0.0]
    for label, (function, args) in track(CALLS.items(), description="compiling", transient=True):
        best, nodes = [float("inf")] * 2, [0, 0]
        for _ in range(options.rounds):
            for side, whose in enumerate((nullcontext, upstream)):
                with whose():
                    seconds, nodes[side] = compile_once(function, args, options.calls)
                best[side] = min(best[side], seconds)
        total = [total[0] + best[0], total[1] + best[1]]
        counts = [f"{each / options.calls:.1f}" for each in nodes]
        table.add_row(label, *counts, f"{best[0] / best[1]:.2f}x")
    table.add_row("all", "", "", f"{total[0] / total[1]:.2f}x")
    Console().print(table)


if __name__ == "__main__":
    main()
