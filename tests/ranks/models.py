"""Run by every rank: quantised models of which every rank has a part, against the same model whole.

A Llama by columns and rows, and a mixture of experts, W8A8 and weight-only; eagerly, as GE graphs and captured.
"""

import copy
import os
import sys
import warnings
from datetime import timedelta
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[2] / "examples"))
import decoders
import torch
import torch.distributed as dist
import torch_npu  # noqa: F401
from graph_quant.nn import W8A16, DynamicW8A8, StaticW8A8, observe, parallelize_, quantize_
from graph_quant.nn.recipes import Recipe
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM, StaticCache

warnings.simplefilter("ignore")
RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
TINY: dict[str, Any] = {
    "vocab_size": 64,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "head_dim": 16,
    "max_position_embeddings": 64,
}
LLAMA = {
    "*.[qkv]_proj": "column",
    "*.o_proj": "row",
    "*.gate_proj": "column",
    "*.up_proj": "column",
    "*.down_proj": "row",
}
EXPERTS = {"*.[qkv]_proj": "column", "*.o_proj": "row", "*.experts": "expert"}
PROMPT = torch.randint(0, 64, (1, 6), generator=torch.Generator().manual_seed(3))


def llama() -> torch.nn.Module:
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(**TINY)).to(torch.bfloat16).eval().npu()


def mixture() -> torch.nn.Module:
    torch.manual_seed(0)
    sizes = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 64, "norm_topk_prob": True}
    return Qwen3MoeForCausalLM(Qwen3MoeConfig(**TINY, **sizes)).to(torch.bfloat16).eval().npu()


def empty_cache(model: Any, heads: int) -> StaticCache:
    cache = StaticCache(config=model.config, max_cache_len=decoders.CACHE_LENGTH)
    cache.early_initialization(1, heads, TINY["head_dim"], model.dtype, torch.device("npu", RANK))
    return cache


def quantised(model: torch.nn.Module, recipe: Recipe) -> torch.nn.Module:
    with observe(model) as seen, torch.no_grad():
        decoders.step(model, PROMPT.npu(), empty_cache(model, 4))
    quantize_(model, recipe, lambda _, name: not name.endswith(("lm_head", "mlp.gate")), observations=seen)
    return model


def run(model: torch.nn.Module, backend: str, heads: int) -> list[torch.Tensor]:
    """Logits of a prompt and of the token after it."""
    cache = empty_cache(model, heads)
    torch._dynamo.reset()
    if backend != "eager":
        model = torch.compile(model, backend=backend, fullgraph=True, dynamic=True)
    with torch.no_grad():
        prefill = decoders.step(model, PROMPT.npu(), cache)
        following = prefill[:, -1:].argmax(-1)
        return [prefill.cpu(), decoders.step(model, following, cache).cpu()]


def same(got: list[torch.Tensor], wanted: list[torch.Tensor], what: str) -> None:
    assert all(torch.equal(one, other) for one, other in zip(got, wanted, strict=True)), what


def main(names: list[str], backends: list[str]) -> None:
    for name in names:
        model, plan = {"llama": (llama, LLAMA), "mixture": (mixture, EXPERTS)}[name]
        for recipe in (DynamicW8A8(), StaticW8A8(), W8A16()):
            whole = quantised(model(), recipe)
            part = copy.deepcopy(whole)
            assert parallelize_(part, plan)
            wanted, eager = run(whole, "eager", 4), run(part, "eager", 4 // RANKS)
            title = f"{name} {type(recipe).__name__}"
            if isinstance(recipe, W8A16):  # adds up in half precision
                assert all(torch.allclose(*pair, atol=0.01) for pair in zip(eager, wanted, strict=True)), title
            else:
                same(eager, wanted, title)
            if isinstance(recipe, DynamicW8A8):
                for backend in backends:
                    same(run(part, backend, 4 // RANKS), eager, f"{title} {backend}")
            print(title, "done", flush=True)


torch.npu.set_device(RANK)
dist.init_process_group("hccl", timeout=timedelta(seconds=120))
main(sys.argv[1].split(","), sys.argv[2:])
dist.barrier()
dist.destroy_process_group()
