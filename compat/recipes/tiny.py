"""Tiny models for the recipes' own runner: a configuration, a byte tokenizer, and settings.

Checkpoints are written by transformers with random weights, and quantised if the recipe is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from threading import RLock
from typing import Any

import torch
import yaml
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

from .checkpoint import quantise
from .configurations import Recipe

_SPECIAL = ("<|im_start|>", "<|im_end|>", "<|endoftext|>")
_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "<|im_start|>assistant\n"
)
_PROMPT, _NEW, _BATCH = 64, 4, 2
# Jobs are threads of one process. transformers builds a model under torch's default dtype and generator, which belong
# to the process: a second thread would change the weights that a seed gives.
ONE_MODEL_AT_A_TIME = RLock()


def write(recipe: Recipe, mode: str, folder: Path, ranks: int = 1) -> Path:
    """Write the model's folder and the runner's settings; return the path of the settings."""
    tokens = write_tokenizer(folder)
    ids = {"eos_token_id": tokens - 2, "bos_token_id": tokens - 1, "pad_token_id": tokens - 1}
    config = {**recipe.config, **ids}
    plain = _plain(recipe, folder)
    if recipe.is_in_transformers:
        with ONE_MODEL_AT_A_TIME:
            write_weights(plain, config)
    else:
        (folder / "config.json").write_text(json.dumps(config))
    if recipe.bits is not None:
        quantise(plain, folder, recipe.bits[0], recipe.kv_bits is not None, recipe.unquantised)
        config["quantization_config"] = _quantisation(recipe, *recipe.bits)
        (folder / "config.json").write_text(json.dumps(config))
    (folder / "generation_config.json").write_text(json.dumps({**ids, "do_sample": False}))
    settings = (_settings_of_own_runner if recipe.has_own_runner else _settings)(recipe, mode, folder, ranks)
    path = folder / "settings.yaml"
    path.write_text(yaml.safe_dump(settings))
    return path


def _settings(recipe: Recipe, mode: str, folder: Path, ranks: int) -> dict[str, Any]:
    return {
        "model_config": {
            "model_name": recipe.model,
            "model_path": str(folder),
            "exe_mode": mode,
            "with_ckpt": recipe.is_in_transformers,
            "custom_params": dict(recipe.custom),
        },
        "data_config": {"dataset": "default", "input_truncated_len": _PROMPT},
        "parallel_config": {
            "world_size": ranks,
            **_groups(ranks, "attn", "dense", "embed", "lmhead"),
            **_groups(1 if recipe.shares_experts else ranks, "moe"),
            **recipe.parallel,
        },
        "scheduler_config": {"max_new_tokens": _NEW, "batch_size": _BATCH},
    }


def _settings_of_own_runner(recipe: Recipe, mode: str, folder: Path, ranks: int) -> dict[str, Any]:
    return {
        "model_name": recipe.model,
        "model_path": str(folder),
        "exe_mode": mode,
        "world_size": ranks,
        "model_config": {"with_ckpt": True, "enable_online_split_weight": True},
        "data_config": {
            "dataset": "default",
            "input_max_len": _PROMPT,
            "max_new_tokens": _NEW,
            "batch_size": _BATCH,
        },
        "parallel_config": _groups(ranks, "attn", "moe", "embed", "lmhead"),
    }


def _groups(ranks: int, *parts: str) -> dict[str, int]:
    return {f"{part}_tp_size": ranks for part in parts}


def _plain(recipe: Recipe, folder: Path) -> Path:
    """Return the folder of the weights that transformers can read."""
    return folder if recipe.bits is None else folder / "plain"


def reference(recipe: Recipe, folder: Path) -> nn.Module:
    """Return the transformers model in float32, with the weights in ``folder``."""
    with ONE_MODEL_AT_A_TIME:
        model: nn.Module = AutoModelForCausalLM.from_pretrained(_plain(recipe, folder), dtype=torch.float32)
    return model.eval()


def last_logits(model: nn.Module, prompt: list[int]) -> torch.Tensor:
    """Return the logits of the last token of a prompt."""
    with ONE_MODEL_AT_A_TIME, torch.no_grad():
        logits: torch.Tensor = model(torch.tensor([prompt])).logits[0, -1]
    return logits


def write_weights(folder: Path, config: Mapping[str, Any]) -> None:
    folder.mkdir(exist_ok=True)
    written = json.dumps(config)
    (folder / "config.json").write_text(written)
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder), dtype=torch.bfloat16)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name:
                # Some models add 1 to the stored weight. Doubled queries and keys would make softmax one-hot.
                middle = 0.0 if name.endswith("weight") and not parameter.any() else 1.0
                parameter.uniform_(middle - 0.5, middle + 0.5)
            else:
                parameter.normal_(0, 0.05)
    model.save_pretrained(folder)
    (folder / "config.json").write_text(written)  # in the recipe's spelling


def _quantisation(recipe: Recipe, weight_bits: int, activation_bits: int) -> dict[str, Any]:
    """Return the configuration of compressed-tensors; only experts have 4 bits, as in the recipe."""

    def group(bits: int, targets: list[str]) -> dict[str, Any]:
        weights = {"num_bits": bits, "strategy": "channel", "symmetric": True, "dynamic": False, "type": "int"}
        inputs = {"num_bits": activation_bits, "strategy": "token", "symmetric": True, "dynamic": True, "type": "int"}
        return {"input_activations": inputs, "output_activations": None, "targets": targets, "weights": weights}

    groups = {"group_0": group(8, ["Linear"])}
    if weight_bits != 8:
        groups["group_1"] = group(weight_bits, ["MoEGMM"])
    cache = {"num_bits": recipe.kv_bits, "type": "int", "strategy": "tensor", "dynamic": False, "symmetric": True}
    return {
        "config_groups": groups,
        "format": "int-quantized",
        "ignore": ["lm_head", "re:.*gate$", *(f"re:.*{name}.*" for name in recipe.unquantised)],
        "kv_cache_scheme": cache if recipe.kv_bits is not None else None,
        "quant_method": "compressed-tensors",
        "quantization_status": "compressed",
    }


def write_tokenizer(folder: Path) -> int:
    """Write a tokenizer with a token for each byte and three special ones; return their number."""
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = {token: index for index, token in enumerate([*sorted(pre_tokenizers.ByteLevel.alphabet()), *_SPECIAL])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=_SPECIAL[1], pad_token=_SPECIAL[2])
    fast.chat_template = _TEMPLATE
    fast.save_pretrained(folder)
    return len(vocabulary)
