"""A decode step with the passes over its graph and without them, by both engines, in one run.

The model is a quantised Llama of four layers as transformers has it, with a StaticCache; the step is one token.

    python benchmarks/run.py passes
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
import torchair
from graph_quant import passes
from graph_quant.host.engine import HostGraph, use
from graph_quant.nn import DynamicW8A8, quantize_
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
BAR = 1.3


@torch.no_grad()
def measure(rounds: int = 15, repeat: int = 5) -> dict[str, Any]:
    """How many times as fast a step is with the passes, and the nodes of both graphs."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(CONFIG, dtype=torch.bfloat16).eval().npu()
    quantize_(model, DynamicW8A8(), lambda _, name: name != "lm_head")
    figures = {}
    for engine in ("eager", "inductor"):
        steps, nodes = {}, {}
        for chosen in ("on", "off"):
            steps[chosen], nodes[chosen] = _decoding(copy.deepcopy(model), engine, chosen)
        with use(engine):
            times = _alternating(steps, rounds, repeat)
        figures[engine] = {
            "without / with": round(times["off"] / times["on"], 2),
            "bar": BAR,
            "nodes": nodes["on"],
            "nodes without": nodes["off"],
        }
    return figures


def _decoding(model: Any, engine: str, chosen: str) -> tuple[Callable[[], object], int]:
    """A step of one token after a prompt, and the nodes of its graph."""
    made: list[int] = []
    load = HostGraph.load

    def noting(graph: HostGraph, ge_graph: Any, *rest: Any) -> None:
        made.append(len(ge_graph.op))
        load(graph, ge_graph, *rest)

    token = torch.zeros(1, 1, dtype=torch.long).npu()
    cache = StaticCache(config=CONFIG, max_cache_len=CACHE)
    model(input_ids=torch.zeros(1, 7, dtype=torch.long).npu(), past_key_values=cache)
    compiled = torch.compile(model, backend=torchair.get_npu_backend(), fullgraph=True, dynamic=True)

    def step() -> object:
        return compiled(input_ids=token, past_key_values=cache).logits

    HostGraph.load = noting  # type: ignore[method-assign]
    try:
        with use(engine), passes.use(chosen):
            step()
    finally:
        HostGraph.load = load  # type: ignore[method-assign]
    return step, made[0]
