"""A decode step with the passes over its graph and without them, by both engines, in one run.

The model is a quantised Llama of four layers as transformers has it, with a StaticCache; the step is one token. The
compile time is CPU time, including compilers that Inductor starts, with an empty cache. For Inductor the calls in its
code are counted, both kernels and operators: it removes redundant constants, shapes and casts itself, but not copies
that are inputs of operators.

The same step is measured with fusions and without, by the eager engine.

    python benchmarks/run.py passes
"""

from __future__ import annotations

import copy
import re
import time
from collections.abc import Callable
from resource import RUSAGE_CHILDREN, getrusage
from typing import Any

import torch
import torchair
from graph_quant import fusions, passes
from graph_quant.host.engine import HostGraph, use
from graph_quant.nn import DynamicW8A8, merge_linears_, quantize_
from torch._inductor import config
from torch._inductor.utils import fresh_cache, run_and_get_code
from transformers import AutoModelForCausalLM, LlamaConfig, StaticCache

from engine import _alternating

CONFIG = LlamaConfig(
    hidden_size=128,
    intermediate_size=352,
    num_hidden_layers=4,
    num_attention_heads=8,
    num_key_value_heads=2,
    vocab_size=256,
)
CACHE = 1024
BAR, COMPILE_BAR = 1.3, 1.05
FUSIONS_BAR, FUSIONS_COMPILE_BAR = 1.0, 1.2
COMPILATIONS = {"eager": 3, "inductor": 2}
Step = Callable[[], object]
# Lines of Inductor's code that run something: kernels of its own, ATen's and other operators.
_RUNS = re.compile(r"^\s+(?:\w+ = )?(?:cpp_fused\w*|extern_kernels\.\w+|torch\.ops\.[\w.]+)\(", re.MULTILINE)


@torch.no_grad()
def measure(rounds: int = 15, repeat: int = 5) -> dict[str, Any]:
    """Return the speedup of a step by the passes, the nodes of both graphs, and compile times."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(CONFIG, dtype=torch.bfloat16).eval().npu()
    quantize_(model, DynamicW8A8(), lambda _, name: name != "lm_head")
    figures = {}
    for engine in ("eager", "inductor"):
        steps: dict[str, Step] = {}
        nodes, calls = {}, {}
        compiling: dict[str, list[float]] = {"on": [], "off": []}
        for _ in range(COMPILATIONS[engine]):
            for chosen, taken in compiling.items():
                steps[chosen] = _decoding(copy.deepcopy(model))
                seconds, nodes[chosen], calls[chosen] = _compile(steps[chosen], engine, chosen)
                taken.append(seconds)
        with use(engine):
            times = _alternating(steps, rounds, repeat)
        figures[engine] = {
            "without / with": round(times["off"] / times["on"], 2),
            "bar": BAR,
            "nodes": nodes["on"],
            "nodes without": nodes["off"],
            "compiling, with / without": round(min(compiling["on"]) / min(compiling["off"]), 2),
            "its bar": COMPILE_BAR,
        }
        if engine == "inductor":
            figures[engine] |= {"calls in its code": calls["on"], "without": calls["off"]}
    figures["fusions"] = _measure_fusions(model, rounds, repeat)
    return figures


def _measure_fusions(model: Any, rounds: int, repeat: int) -> dict[str, Any]:
    """Return how much faster a step is with fusions, the nodes of both graphs, and compile times."""
    models = {"off": model, "on": copy.deepcopy(model)}
    merge_linears_(models["on"])
    steps: dict[str, Step] = {}
    nodes: dict[str, int] = {}
    compiling: dict[str, list[float]] = {"on": [], "off": []}
    for _ in range(COMPILATIONS["eager"]):
        for chosen, taken in compiling.items():
            steps[chosen] = _decoding(copy.deepcopy(models[chosen]))
            with fusions.use(chosen):
                seconds, nodes[chosen], _ = _compile(steps[chosen], "eager", "on")
            taken.append(seconds)
    with use("eager"):
        times = _alternating(steps, rounds, repeat)
    return {
        "without / with": round(times["off"] / times["on"], 2),
        "bar": FUSIONS_BAR,
        "nodes": nodes["on"],
        "nodes without": nodes["off"],
        "compiling, with / without": round(min(compiling["on"]) / min(compiling["off"]), 2),
        "its bar": FUSIONS_COMPILE_BAR,
    }


def _decoding(model: Any) -> Step:
    """A step of one token after a prompt."""
    token = torch.zeros(1, 1, dtype=torch.long).npu()
    cache = StaticCache(config=CONFIG, max_cache_len=CACHE)
    model(input_ids=torch.zeros(1, 7, dtype=torch.long).npu(), past_key_values=cache)
    compiled = torch.compile(model, backend=torchair.get_npu_backend(), fullgraph=True, dynamic=True)
    return lambda: compiled(input_ids=token, past_key_values=cache).logits


def _compile(step: Step, engine: str, chosen: str) -> tuple[float, int, int]:
    """Return CPU seconds of the first call of a step, nodes of its graph, and calls in Inductor's code."""
    node_counts: list[int] = []
    load = HostGraph.load

    def noting(graph: HostGraph, ge_graph: Any, *rest: Any) -> None:
        node_counts.append(len(ge_graph.op))
        load(graph, ge_graph, *rest)

    HostGraph.load = noting  # type: ignore[method-assign]
    try:
        # Compilers that this process waits for count as its children.
        with use(engine), passes.use(chosen), fresh_cache(), config.patch(compile_threads=1):
            start = _processor()
            _, codes = run_and_get_code(step)
            seconds = _processor() - start
    finally:
        HostGraph.load = load  # type: ignore[method-assign]
    return seconds, node_counts[0], sum(len(_RUNS.findall(code)) for code in codes)


def _processor() -> float:
    children = getrusage(RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime
