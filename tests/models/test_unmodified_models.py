"""Models of transformers as they are: their own attention, masks and caches, compiled as a user would.

`GRAPH_QUANT_MODELS=all` tries every model with every attention and cache, as it is and quantised, over ten lengths and
by `generate`; decoders besides, once each; and encoders and pairs of both, of text, images and sound.
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
# Those that are tried once, as they are.
MORE: dict[str, dict[str, Any]] = {
    "Mistral": SIZES,
    "Phi3": SIZES | {"pad_token_id": 0},
    "Granite": SIZES,
    "GPTNeoX": {key: size for key, size in SIZES.items() if key != "num_key_value_heads"},
    "GPT2": {"n_embd": 128, "n_layer": 2, "n_head": HEADS, "vocab_size": VOCABULARY},
    "OPT": {
        "hidden_size": 128,
        "word_embed_proj_dim": 128,
        "ffn_dim": 256,
        "num_hidden_layers": 2,
        "num_attention_heads": HEADS,
        "vocab_size": VOCABULARY,
    },
    "Falcon": {
        "hidden_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": HEADS,
        "num_kv_heads": 2,
        "new_decoder_architecture": True,
        "vocab_size": VOCABULARY,
    },
}
CASES = [("Llama", "eager", "static", False), ("Llama", "sdpa", "dynamic", True)]
# Those that look special: as many tokens as heads, as a head has elements, as the cache holds.
LENGTHS = [7, HEADS, HEAD_SIZE, CACHE - 1, 3]
ALL = os.environ.get("GRAPH_QUANT_MODELS") == "all"
if ALL:
    CASES = list(product(MODELS, ("eager", "sdpa"), ("static", "dynamic"), (False, True)))
    CASES += [(name, "sdpa", "dynamic", False) for name in MORE]
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
    config = getattr(transformers, f"{name}Config")(**(MODELS | MORE)[name])
    model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16, attn_implementation=attention).eval().npu()
    if quantised:
        assert quantize_(model, DynamicW8A8(), lambda _, path: path != "lm_head")
    return model


def make_cache(kind: str, config: Any) -> StaticCache | DynamicCache:
    return DynamicCache(config=config) if kind == "dynamic" else StaticCache(config=config, max_cache_len=CACHE)


@pytest.mark.parametrize(("name", "attention", "cache", "quantised"), CASES)
@torch.no_grad
def test_two_graphs_run_every_prompt_and_decode_step(
    name: str, attention: str, cache: str, quantised: bool, graphs: list[int]
) -> None:
    model = make_model(name, attention, quantised)
    compiled = torch.compile(model, fullgraph=True, dynamic=True, backend="npu")
    for length in LENGTHS:
        tokens = torch.randint(VOCABULARY, (1, length)).npu()
        caches = [make_cache(cache, model.config) for _ in range(2)]
        for _ in range(2):
            eager, graph = (
                run(input_ids=tokens, past_key_values=cache).logits
                for run, cache in zip((model, compiled), caches, strict=True)
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
    """Return the tokens that ``generate`` appends to a prompt."""
    tokens = torch.arange(5)[None].npu()
    settings = {"max_new_tokens": 4, "do_sample": False, "pad_token_id": 0, "disable_compile": True}
    if cache == "static":
        settings["cache_implementation"] = "static"
    with pytest.MonkeyPatch.context() as patch:
        if forward is not None:
            patch.setattr(model, "forward", forward)
        return model.generate(tokens, attention_mask=torch.ones_like(tokens), **settings).tolist()  # type: ignore[no-any-return]


LAYERS: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}
PATCHES: dict[str, Any] = {"image_size": 32, "patch_size": 8}
SIDES: dict[str, Any] = {
    f"{side}_{what}": size
    for side in ("encoder", "decoder")
    for what, size in (("layers", 2), ("attention_heads", 4), ("ffn_dim", 128))
}
TEXT: dict[str, Any] = LAYERS | {"vocab_size": VOCABULARY, "max_position_embeddings": 32}
BOTH: dict[str, Any] = {"text_config": TEXT | {"eos_token_id": 255}, "vision_config": LAYERS | PATCHES}
# The class, its configuration, and what it is called with.
WHOLE: dict[str, tuple[str, dict[str, Any], tuple[str, ...]]] = {
    "ViT": ("Model", LAYERS | PATCHES, ("image",)),
    "Dinov2": ("Model", LAYERS | PATCHES, ("image",)),
    "CLIP": ("Model", BOTH, ("text", "image")),
    "Siglip": ("Model", BOTH, ("text", "image")),
    "Roberta": ("Model", TEXT, ("text",)),
    "XLMRoberta": ("Model", TEXT, ("text",)),
    "T5": (
        "ForConditionalGeneration",
        {"d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4, "vocab_size": VOCABULARY},
        ("text", "target"),
    ),
    "Bart": ("ForConditionalGeneration", SIDES | {"d_model": 64, "vocab_size": VOCABULARY}, ("text", "target")),
    "Whisper": (
        "ForConditionalGeneration",
        SIDES | {"d_model": 64, "vocab_size": VOCABULARY, "num_mel_bins": 16, "max_source_positions": 20}
        | {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 3},
        ("sound", "target"),
    ),
}  # fmt: skip


def _inputs(kinds: tuple[str, ...], batch: int, length: int) -> dict[str, torch.Tensor]:
    tokens = torch.randint(4, 250, (batch, length))
    tokens[:, -1] = 255
    inputs = {
        "text": {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)},
        "target": {"decoder_input_ids": tokens[:, : length // 2 + 1]},
        "image": {"pixel_values": torch.randn(batch, 3, 32, 32).bfloat16()},
        "sound": {"input_features": torch.randn(batch, 16, 40).bfloat16()},
    }
    return {name: tensor.npu() for kind in kinds for name, tensor in inputs[kind].items()}


@pytest.mark.skipif(not ALL, reason="GRAPH_QUANT_MODELS is not all")
@pytest.mark.parametrize("name", WHOLE)
@torch.no_grad
def test_one_graph_runs_every_batch_size(name: str, graphs: list[int]) -> None:
    torch.manual_seed(0)
    kind, sizes, kinds = WHOLE[name]
    config = getattr(transformers, f"{name}Config")(**sizes)
    model = getattr(transformers, f"{name}{kind}")(config).bfloat16().eval().npu()
    compiled = torch.compile(model, fullgraph=True, dynamic=True, backend="npu")
    for batch, length in ((2, 7), (3, 12), (4, 5)):
        inputs = _inputs(kinds, batch, length)
        eager, graph = (run(**inputs, return_dict=False) for run in (model, compiled))
        for one, other in zip(*(map(_tensors, (eager, graph))), strict=True):
            assert torch.equal(one, other), f"{batch} of {length}"
    assert len(graphs) == 1


def _tensors(results: Any) -> list[torch.Tensor]:
    return [leaf for leaf in torch.utils._pytree.tree_leaves(results) if isinstance(leaf, torch.Tensor)]
