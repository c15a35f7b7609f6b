"""Models of transformers as they are: their own attention, masks and caches, compiled as a user would."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from graph_quant.host.engine import HostGraph
from transformers import AutoModelForCausalLM, LlamaConfig, StaticCache

HEADS, HEAD_SIZE, CACHE = 8, 16, 24
CONFIG = LlamaConfig(
    hidden_size=HEADS * HEAD_SIZE,
    intermediate_size=352,
    num_hidden_layers=2,
    num_attention_heads=HEADS,
    num_key_value_heads=2,
    vocab_size=256,
)
# Those that look special: as many tokens as heads, as a head has elements, as the cache holds.
LENGTHS = (7, HEADS, HEAD_SIZE, CACHE - 1, 3)
MOST_NODES = 330


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The nodes of each graph that is compiled."""
    nodes: list[int] = []
    load = HostGraph.load

    def noting(graph: HostGraph, ge_graph: object, *rest: object) -> None:
        nodes.append(len(ge_graph.op))  # type: ignore[attr-defined]
        load(graph, ge_graph, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(HostGraph, "load", noting)
    torch._dynamo.reset()
    yield nodes
    torch._dynamo.reset()


@torch.no_grad
def test_two_graphs_serve_every_prompt_and_every_step(graphs: list[int]) -> None:
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(CONFIG, dtype=torch.bfloat16, attn_implementation="eager").eval().npu()
    compiled = torch.compile(model, fullgraph=True, dynamic=True, backend="npu")
    for length in LENGTHS:
        tokens = torch.randint(256, (1, length)).npu()
        caches = [StaticCache(config=CONFIG, max_cache_len=CACHE) for _ in range(2)]
        for _ in range(2):
            eager, graph = (
                each(input_ids=tokens, past_key_values=cache).logits
                for each, cache in zip((model, compiled), caches, strict=True)
            )
            assert torch.equal(eager, graph), f"{length} tokens"
            tokens = eager[:, -1:].argmax(-1)
        for one, other in zip(caches[0].layers, caches[1].layers, strict=True):
            assert torch.equal(one.keys, other.keys)
            assert torch.equal(one.values, other.values)
    assert len(graphs) == 2, "one for prompts, one for a token"
    assert max(graphs) <= MOST_NODES
