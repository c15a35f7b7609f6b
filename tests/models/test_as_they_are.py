"""Models of transformers as they are: their own attention, masks and caches, compiled as a user would.

`GRAPH_QUANT_MODELS=all` tries every model with every attention and cache, as it is and quantised, over ten lengths and
by `generate`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
import torch
import transformers
from graph_quant.host.engine import HostGraph
from graph_quant.nn import DynamicW8A8, quantize_
from transformers import AutoModelForCausalLM, DynamicCache, StaticCache

HEADS, HEAD_SIZE, CACHE, VOCABULARY = 8, 16, 24, 256
SIZES: dict[str, Any] = {
    "hidden_size": HEADS * HEAD_SIZE,
    "intermediate_size": 352,
    "num_hidden_layers": 2,
    "num_attention_heads": HEADS,
    "num_key_value_heads": 2,
    "vocab_size": VOCABULARY,
}
EXPERTS: dict[str, Any] = {"moe_intermediate_size": 32, "num_experts_per_tok": 2}
LATENT: dict[str, Any] = {
    "num_key_value_heads": HEADS,
    "q_lora_rank": 24,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": HEAD_SIZE,
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "n_group": 2,
    "topk_group": 1,
    "first_k_dense_replace": 1,
}
MODELS: dict[str, dict[str, Any]] = {
    "Llama": SIZES,
    "Qwen3": SIZES | {"head_dim": HEAD_SIZE},
    "Qwen3Moe": SIZES | EXPERTS | {"head_dim": HEAD_SIZE, "num_experts": 4},
    "Mixtral": SIZES | {"num_local_experts": 4, "num_experts_per_tok": 2},
    "DeepseekV3": SIZES | EXPERTS | LATENT,
    "Gemma": SIZES | {"head_dim": HEAD_SIZE},
}
CASES = [("Llama", "eager", "static", False), ("Llama", "sdpa", "dynamic", True)]
# Those that look special: as many tokens as heads, as a head has elements, as the cache holds.
LENGTHS = [7, HEADS, HEAD_SIZE, CACHE - 1, 3]
ALL = os.environ.get("GRAPH_QUANT_MODELS") == "all"
if ALL:
    CASES = list(product(MODELS, ("eager", "sdpa"), ("static", "dynamic"), (False, True)))
    LENGTHS += [2, 4, 12, 20, 22]
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


def make_model(name: str, attention: str, quantised: bool) -> Any:
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**MODELS[name])
    model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16, attn_implementation=attention).eval().npu()
    if quantised:
        assert quantize_(model, DynamicW8A8(), lambda _, path: path != "lm_head")
    return model


def make_cache(kind: str, config: Any) -> StaticCache | DynamicCache:
    return DynamicCache(config=config) if kind == "dynamic" else StaticCache(config=config, max_cache_len=CACHE)


@pytest.mark.parametrize(("name", "attention", "cache", "quantised"), CASES)
@torch.no_grad
def test_two_graphs_serve_every_prompt_and_every_step(
    name: str, attention: str, cache: str, quantised: bool, graphs: list[int]
) -> None:
    model = make_model(name, attention, quantised)
    compiled = torch.compile(model, fullgraph=True, dynamic=True, backend="npu")
    for length in LENGTHS:
        tokens = torch.randint(VOCABULARY, (1, length)).npu()
        caches = [make_cache(cache, model.config) for _ in range(2)]
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
    assert name != "Llama" or max(graphs) <= MOST_NODES
    if ALL:
        forward = torch.compile(model.forward, fullgraph=True, dynamic=True, backend="npu")
        assert _generated(model, cache) == _generated(model, cache, forward)


def _generated(model: Any, cache: str, forward: Any = None) -> list[int]:
    """The tokens that ``generate`` finds after a prompt."""
    tokens = torch.arange(5)[None].npu()
    settings = {"max_new_tokens": 4, "do_sample": False, "pad_token_id": 0, "disable_compile": True}
    if cache == "static":
        settings["cache_implementation"] = "static"
    with pytest.MonkeyPatch.context() as patch:
        if forward is not None:
            patch.setattr(model, "forward", forward)
        return model.generate(tokens, attention_mask=torch.ones_like(tokens), **settings).tolist()  # type: ignore[no-any-return]
