"""GE nodes of one layer of models of transformers, quantised to W8A8, with fusions and without them.

A layer is the difference of a model with three layers and one with two, so that nothing outside of layers counts.
Inputs and constants (Data, Const) are not nodes here. Linears are merged where fusions are on.

    python benchmarks/run.py fused_nodes
    python benchmarks/fused_nodes.py qwen3 decode dynamic   # the types of the nodes of one case
"""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

import graph_quant  # noqa: F401  (before torch: it makes torch_npu loadable)
import torch
import torchair
from graph_quant import fusions
from graph_quant.host.engine import HostGraph
from graph_quant.nn import DynamicW8A8, merge_linears_, quantize_
from transformers import (
    AutoModelForCausalLM,
    DeepseekV3Config,
    GptOssConfig,
    LlamaConfig,
    PretrainedConfig,
    Qwen3Config,
    Qwen3MoeConfig,
    StaticCache,
)

SIZES: dict[str, Any] = {
    "hidden_size": 128, "intermediate_size": 256, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64,
    "vocab_size": 256, "max_position_embeddings": 128, "pad_token_id": 0,
}  # fmt: skip
EXPERTS: dict[str, Any] = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 128}
LATENT: dict[str, Any] = {
    "num_key_value_heads": 4, "q_lora_rank": 64, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128,
    "v_head_dim": 128, "n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 128, "n_group": 4,
    "topk_group": 2, "n_shared_experts": 1,
}  # fmt: skip
DENSE_BAR, MOE_BAR = 15, 25


def _deepseek(layers: int) -> DeepseekV3Config:
    sizes = {name: value for name, value in SIZES.items() if name != "head_dim"}
    return DeepseekV3Config(**sizes | LATENT, num_hidden_layers=layers, first_k_dense_replace=0)


def _deepseek_dense(layers: int) -> DeepseekV3Config:
    sizes = {name: value for name, value in SIZES.items() if name != "head_dim"}
    return DeepseekV3Config(**sizes | LATENT, num_hidden_layers=layers, first_k_dense_replace=layers)


def _gpt_oss(layers: int) -> GptOssConfig:
    sizes = SIZES | {"num_local_experts": 8, "num_experts_per_tok": 2}
    return GptOssConfig(**sizes, num_hidden_layers=layers, layer_types=["full_attention"] * layers)


MODELS = {
    "llama": (lambda layers: LlamaConfig(**SIZES, num_hidden_layers=layers), DENSE_BAR),
    "qwen3": (lambda layers: Qwen3Config(**SIZES, num_hidden_layers=layers), DENSE_BAR),
    "qwen3-moe": (lambda layers: Qwen3MoeConfig(**SIZES, **EXPERTS, num_hidden_layers=layers), MOE_BAR),
    "deepseek-v3 dense": (_deepseek_dense, DENSE_BAR),
    "deepseek-v3": (_deepseek, MOE_BAR),
    "gpt-oss": (_gpt_oss, MOE_BAR),
}
STEPS = ("prompt", "decode")
SHAPES = ("static", "dynamic")


def measure() -> dict[str, Any]:
    """Return the nodes of a layer by model, step and shapes, with fusions and without."""
    figures: dict[str, Any] = {}
    for name, (_, bar) in MODELS.items():
        figures[name] = {"bar": bar}
        for step in STEPS:
            for shapes in SHAPES:
                counts = [layer_nodes(name, step, shapes, chosen).total() for chosen in ("off", "on")]
                figures[name][f"{step}, {shapes} shapes"] = counts[1]
                figures[name][f"{step}, {shapes} shapes, without"] = counts[0]
    return figures


def layer_nodes(name: str, step: str, shapes: str, chosen: str) -> Counter[str]:
    """The types of the nodes of one layer."""
    three, two = (_nodes(MODELS[name][0](layers), step, shapes, chosen) for layers in (3, 2))
    three.subtract(two)
    return +three


@torch.no_grad()
def _nodes(config: PretrainedConfig, step: str, shapes: str, chosen: str) -> Counter[str]:
    model = quantised_model(config)
    if chosen == "on":
        merge_linears_(model)
    tokens = torch.zeros(1, 1 if step == "decode" else 8, dtype=torch.long).npu()
    options: dict[str, Any] = {"use_cache": False}
    if step == "decode":
        options = {"past_key_values": filled_cache(model)}
    torch._dynamo.reset()
    backend = torchair.get_npu_backend()
    compiled = torch.compile(model, backend=backend, fullgraph=True, dynamic=shapes == "dynamic")
    graphs: list[Counter[str]] = []
    load = HostGraph.load

    def noting(graph: HostGraph, ge_graph: Any, *rest: Any) -> None:
        graphs.append(Counter(op.type for op in ge_graph.op if op.type not in ("Data", "Const")))
        load(graph, ge_graph, *rest)

    HostGraph.load = noting  # type: ignore[method-assign]
    try:
        with fusions.use(chosen):
            compiled(input_ids=tokens, **options)
    finally:
        HostGraph.load = load  # type: ignore[method-assign]
    return graphs[0]


def quantised_model(config: PretrainedConfig) -> Any:
    """A model with random weights, quantised as deployments do: neither the head nor the router."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).eval().npu()
    quantize_(model, DynamicW8A8(), lambda _, name: name != "lm_head")
    return model


def filled_cache(model: Any) -> StaticCache:
    """A cache of 64 positions that holds a prompt of seven tokens."""
    cache = StaticCache(config=model.config, max_cache_len=64)
    model(input_ids=torch.arange(7).view(1, 7).npu(), past_key_values=cache)
    return cache


if __name__ == "__main__":
    name, step, shapes, *rest = sys.argv[1:]
    counts = layer_nodes(name, step, shapes, *(rest or ["on"]))
    print(counts.total(), dict(counts.most_common()))
