"""GE nodes and compile time of the operators, relative to torch_npu's own lowering, in one run.

Each operator is called many times in one graph with symbolic sizes, compiled alternately by this project and by
upstream. Times are the best of a few rounds and reported as ratios. They include torch.compile up to a loadable GE
graph, not its execution.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import graph_quant  # noqa: F401 (before torch: it makes torch_npu loadable)
import torch
import torch_npu
import torchair
from graph_quant.upstream import upstream
from rich.progress import track
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
    """Return CPU seconds to compile a graph of `calls` calls, and its nodes without inputs and output."""
    graphs: list[Any] = []

    def stop(graph: GeConcreteGraph, *_args: Any, **_kwargs: Any) -> None:
        graphs.append(graph.graph)
        raise GraphIsBuiltError

    def repeated(*tensors: torch.Tensor) -> list[Any]:
        return [function(*tensors) for _ in range(calls)]

    torch._dynamo.reset()
    gc.collect()  # what earlier graphs left is not this one's to sweep
    run, GeConcreteGraph.__call__ = GeConcreteGraph.__call__, stop
    start = time.process_time()
    try:
        backend = torchair.get_npu_backend(compiler_config=CompilerConfig())
        torch.compile(repeated, backend=backend, dynamic=True, fullgraph=True)(*args)
    except GraphIsBuiltError:
        pass
    finally:
        GeConcreteGraph.__call__ = run
    seconds = time.process_time() - start
    return seconds, sum(op.type not in ("Data", "NetOutput") for op in graphs[0].op)


def measure(calls: int = 200, rounds: int = 8) -> dict[str, dict[str, float]]:
    """Nodes a call and compile time of each operator, and the times of all together."""
    figures: dict[str, dict[str, float]] = {}
    total = [0.0, 0.0]
    for label, (function, args) in track(CALLS.items(), description="compiling", transient=True):
        best, nodes = [float("inf")] * 2, [0, 0]
        for turn in range(rounds):
            sides = list(enumerate((nullcontext, upstream)))
            for side, whose in sides if turn % 2 else reversed(sides):  # each finds the other's caches warm in turn
                with whose():
                    seconds, nodes[side] = compile_once(function, args, calls)
                best[side] = min(best[side], seconds)
        total = [total[0] + best[0], total[1] + best[1]]
        figures[label] = {
            "nodes a call": nodes[0] / calls,
            "upstream's": nodes[1] / calls,
            "compile time / upstream's": round(best[0] / best[1], 2),
        }
    return {**figures, "all": {"compile time / upstream's": round(total[0] / total[1], 2)}}
