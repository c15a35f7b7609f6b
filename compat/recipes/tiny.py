"""Tiny models for the recipes' own runner: a configuration, a tokenizer of bytes, and settings.

Their checkpoints are those that transformers wrote, with random weights, or what quantising them gives.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import yaml
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

from .checkpoint import quantise

MODES = ("eager", "ge_graph", "npugraph_ex")
_SPECIAL = ("<|im_start|>", "<|im_end|>", "<|endoftext|>")
_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "<|im_start|>assistant\n"
)


@dataclass(frozen=True)
class Recipe:
    """A model of the recipes, small. ``model`` is the name that their runner knows."""

    model: str
    config: Mapping[str, Any]
    bits: tuple[int, int] | None = None  # of weights and activations
    kv_bits: int | None = None
    modes: tuple[str, ...] = MODES
    custom: Mapping[str, Any] = field(default_factory=dict)


_COMMON = {
    "vocab_size": 320,
    "hidden_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "hidden_act": "silu",
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": False,
    "attention_bias": False,
    "torch_dtype": "bfloat16",
}
_QWEN3 = {
    **_COMMON,
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "intermediate_size": 512,
    "num_key_value_heads": 2,
    "head_dim": 128,
    "rope_theta": 1000000.0,
}
_QWEN3_MOE = {
    **_QWEN3,
    "architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe",
    "moe_intermediate_size": 128,
    "num_experts": 8,
    "num_experts_per_tok": 4,
    "norm_topk_prob": True,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
}
_DEEPSEEK = {
    **_COMMON,
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "deepseek_v3",
    "intermediate_size": 512,
    "moe_intermediate_size": 64,
    "num_key_value_heads": 4,
    "num_nextn_predict_layers": 1,
    "n_shared_experts": 1,
    "n_routed_experts": 16,
    "routed_scaling_factor": 2.5,
    "kv_lora_rank": 512,
    "q_lora_rank": 256,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "qk_nope_head_dim": 128,
    "topk_method": "noaux_tc",
    "n_group": 8,
    "topk_group": 4,
    "num_experts_per_tok": 8,
    "moe_layer_freq": 1,
    "first_k_dense_replace": 1,
    "norm_topk_prob": True,
    "scoring_func": "sigmoid",
    "rope_theta": 10000,
    "rope_scaling": {
        "beta_fast": 32,
        "beta_slow": 1,
        "factor": 40,
        "mscale": 1.0,
        "mscale_all_dim": 1.0,
        "original_max_position_embeddings": 4096,
        "type": "yarn",
    },
}
_KIMI = {**_DEEPSEEK, "n_group": 1, "topk_group": 1, "num_nextn_predict_layers": 0, "routed_scaling_factor": 2.827}
_GPT_OSS = {
    **_COMMON,
    "architectures": ["GptOssForCausalLM"],
    "model_type": "gpt_oss",
    "intermediate_size": 256,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "attention_bias": True,
    "num_local_experts": 8,
    "num_experts_per_tok": 4,
    "sliding_window": 128,
    "rms_norm_eps": 1e-5,
    "layer_types": ["sliding_attention", "full_attention"],
    "rope_parameters": {
        "rope_type": "yarn",
        "rope_theta": 150000.0,
        "factor": 32.0,
        "beta_fast": 32.0,
        "beta_slow": 1.0,
        "truncate": False,
        "original_max_position_embeddings": 4096,
    },
}
RECIPES = {
    "gpt_oss": Recipe("gpt_oss", _GPT_OSS, modes=("eager",)),
    "kimi_k2": Recipe("kimi_k2", _KIMI),
    "qwen3": Recipe("qwen3_8b", _QWEN3),
    "qwen3-w8a8": Recipe("qwen3_8b", _QWEN3, bits=(8, 8)),
    "qwen3_moe": Recipe("qwen3_moe", _QWEN3_MOE),
    "deepseek_r1": Recipe("deepseek_r1", _DEEPSEEK),
    "deepseek_r1-w8a8": Recipe("deepseek_r1", _DEEPSEEK, bits=(8, 8)),
    "deepseek_r1-w4a8": Recipe("deepseek_r1", _DEEPSEEK, bits=(4, 8)),
    "deepseek_r1-w8a8c8": Recipe("deepseek_r1", _DEEPSEEK, bits=(8, 8), kv_bits=8, custom={"enable_mla_prolog": True}),
}


def write(recipe: Recipe, mode: str, folder: Path, ranks: int = 1) -> Path:
    """The model's folder and the runner's settings for it; returns the settings."""
    tokens = _tokenizer(folder)
    ids = {"eos_token_id": tokens - 2, "bos_token_id": tokens - 1, "pad_token_id": tokens - 1}
    config = {**recipe.config, **ids}
    plain = _plain(recipe, folder)
    _weights(plain, config)
    if recipe.bits is not None:
        quantise(plain, folder, recipe.bits[0], recipe.kv_bits is not None)
        config["quantization_config"] = _quantisation(*recipe.bits, recipe.kv_bits)
        (folder / "config.json").write_text(json.dumps(config))
    (folder / "generation_config.json").write_text(json.dumps({**ids, "do_sample": False}))
    settings = {
        "model_config": {
            "model_name": recipe.model,
            "model_path": str(folder),
            "exe_mode": mode,
            "with_ckpt": True,
            "custom_params": dict(recipe.custom),
        },
        "data_config": {"dataset": "default", "input_truncated_len": 64},
        "parallel_config": {
            "world_size": ranks,
            **dict.fromkeys(("attn_tp_size", "dense_tp_size", "embed_tp_size", "lmhead_tp_size"), ranks),
            "moe_tp_size": ranks,
        },
        "scheduler_config": {"max_new_tokens": 4, "batch_size": 2},
    }
    path = folder / "settings.yaml"
    path.write_text(yaml.safe_dump(settings))
    return path


def _plain(recipe: Recipe, folder: Path) -> Path:
    """Where the weights are that transformers can read."""
    return folder if recipe.bits is None else folder / "plain"


def reference_logits(recipe: Recipe, folder: Path, prompts: list[list[int]]) -> torch.Tensor:
    """What transformers computes in float32 for the last token of each prompt, with the weights in ``folder``."""
    model = AutoModelForCausalLM.from_pretrained(_plain(recipe, folder), dtype=torch.float32).eval()
    with torch.no_grad():
        return torch.stack([model(torch.tensor([prompt])).logits[0, -1] for prompt in prompts])


def _weights(folder: Path, config: Mapping[str, Any]) -> None:
    folder.mkdir(exist_ok=True)
    written = json.dumps(config)
    (folder / "config.json").write_text(written)
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder), dtype=torch.bfloat16)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name:
                parameter.uniform_(0.5, 1.5)
            else:
                parameter.normal_(0, 0.05)
    model.save_pretrained(folder)
    (folder / "config.json").write_text(written)  # as the recipe spells it


def _quantisation(weight_bits: int, activation_bits: int, kv_bits: int | None) -> dict[str, Any]:
    """As compressed-tensors describes it. Four bits are for the experts alone, as the recipe has it."""

    def group(bits: int, targets: list[str]) -> dict[str, Any]:
        weights = {"num_bits": bits, "strategy": "channel", "symmetric": True, "dynamic": False, "type": "int"}
        inputs = {"num_bits": activation_bits, "strategy": "token", "symmetric": True, "dynamic": True, "type": "int"}
        return {"input_activations": inputs, "output_activations": None, "targets": targets, "weights": weights}

    groups = {"group_0": group(8, ["Linear"])}
    if weight_bits != 8:
        groups["group_1"] = group(weight_bits, ["MoEGMM"])
    cache = {"num_bits": kv_bits, "type": "int", "strategy": "tensor", "dynamic": False, "symmetric": True}
    return {
        "config_groups": groups,
        "format": "int-quantized",
        "ignore": ["lm_head", "re:.*kv_b_proj.*", "re:.*gate$"],
        "kv_cache_scheme": cache if kv_bits is not None else None,
        "quant_method": "compressed-tensors",
        "quantization_status": "compressed",
    }


def _tokenizer(folder: Path) -> int:
    """A token for each byte, and three more; returns how many there are."""
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = {token: place for place, token in enumerate([*sorted(pre_tokenizers.ByteLevel.alphabet()), *_SPECIAL])}
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=made, eos_token=_SPECIAL[1], pad_token=_SPECIAL[2])
    fast.chat_template = _TEMPLATE
    fast.save_pretrained(folder)
    return len(vocabulary)
