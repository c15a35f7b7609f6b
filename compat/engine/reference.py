"""The models of transformers that vLLM's answers are compared with, and the folders that both read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import AutoModelForCausalLM

from ..recipes.tiny import ONE_MODEL_AT_A_TIME, write_tokenizer, write_weights
from .checkpoint import quantise
from .models import Model

_RANK, _ALPHA = 8, 16
_ADAPTED = ("q_proj", "v_proj", "o_proj", "gate_proj", "down_proj")
_PEFT = "base_model.model."


def write(model: Model, folder: Path) -> Path:
    """Write the model's folder; return the folder of the weights that transformers can read."""
    tokens = write_tokenizer(folder)
    ids = {"eos_token_id": tokens - 2, "bos_token_id": tokens - 1, "pad_token_id": tokens - 1}
    plain = folder / "plain" if model.scheme else folder
    with ONE_MODEL_AT_A_TIME:
        write_weights(plain, {**model.config, **ids})
    if model.drafts:
        _add_draft_layer(plain / "model.safetensors", model.config["num_hidden_layers"])
    if model.scheme:
        inputs = _largest_inputs(plain) if model.scheme == "W8A8" else {}
        quantise(plain, folder, model.scheme, model.unquantised, inputs)
        (folder / "config.json").write_text((plain / "config.json").read_text())
    (folder / "generation_config.json").write_text(json.dumps({**ids, "do_sample": False}))
    if model.adapted:
        _write_adapter(plain, folder / "adapter")
    return plain


def _add_draft_layer(file: Path, layers: int) -> None:
    """Add a layer like the last one, which takes the embedding of the next token too, with random weights."""
    weights = load_file(file)
    last, added = f"model.layers.{layers - 1}.", f"model.layers.{layers}."
    draft = {added + name.removeprefix(last): weight for name, weight in weights.items() if name.startswith(last)}
    embedding, norm = weights["model.embed_tokens.weight"], weights["model.norm.weight"]
    hidden, random = embedding.size(1), torch.Generator().manual_seed(3)
    draft |= {
        f"{added}embed_tokens.weight": embedding,
        f"{added}enorm.weight": norm,
        f"{added}hnorm.weight": norm,
        f"{added}eh_proj.weight": torch.randn(hidden, 2 * hidden, generator=random).mul(0.05).to(embedding.dtype),
        f"{added}shared_head.norm.weight": norm,
        f"{added}shared_head.head.weight": weights["lm_head.weight"],
    }
    save_file(weights | {name: weight.clone() for name, weight in draft.items()}, file, metadata={"format": "pt"})


def _write_adapter(plain: Path, folder: Path) -> None:
    """Write a LoRA adapter with random weights, in PEFT's format."""
    folder.mkdir()
    random = torch.Generator().manual_seed(2)
    adapter: dict[str, Tensor] = {}
    for name, weight in load_file(plain / "model.safetensors").items():
        if name.removesuffix(".weight").rpartition(".")[2] in _ADAPTED:
            prefix = _PEFT + name.removesuffix(".weight")
            outputs, inputs = weight.shape
            adapter[f"{prefix}.lora_A.weight"] = torch.randn(_RANK, inputs, generator=random).mul(0.05).bfloat16()
            adapter[f"{prefix}.lora_B.weight"] = torch.randn(outputs, _RANK, generator=random).mul(0.05).bfloat16()
    save_file(adapter, folder / "adapter_model.safetensors")
    config = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": _RANK, "lora_alpha": _ALPHA, "bias": "none"}
    (folder / "adapter_config.json").write_text(json.dumps({**config, "target_modules": list(_ADAPTED)}))


def merge_adapter(model: nn.Module, folder: Path) -> None:
    """Add a LoRA adapter to the weights of a model."""
    adapter = load_file(folder / "adapter_model.safetensors")
    with torch.no_grad():
        for name, a in adapter.items():
            if name.endswith(".lora_A.weight"):
                linear = model.get_submodule(name.removeprefix(_PEFT).removesuffix(".lora_A.weight"))
                b = adapter[name.replace("lora_A", "lora_B")]
                linear.weight += (_ALPHA / _RANK * (b.float() @ a.float())).to(linear.weight.dtype)


def _largest_inputs(plain: Path) -> Mapping[str, Tensor]:
    """Return the largest magnitude that each linear gets as its input, for some tokens."""
    model = load(plain)
    largest: dict[str, Tensor] = {}

    def note(name: str) -> Callable[..., None]:
        def hook(_module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            largest[name] = torch.maximum(largest.get(name, torch.zeros(())), inputs[0].abs().max())

        return hook

    for name, module in model.named_modules():
        if isinstance(module, nn.Linear):
            module.register_forward_pre_hook(note(name))
    logits_of(model, torch.randint(256, (4, 64), generator=torch.Generator().manual_seed(1)))
    return largest


def load(folder: Path, dtype: torch.dtype = torch.float32) -> nn.Module:
    """Return the model of transformers."""
    with ONE_MODEL_AT_A_TIME:
        model: nn.Module = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
    return model.eval()


def round_inputs(model: nn.Module, stored: Mapping[str, Tensor]) -> None:
    """Let the linears that a checkpoint quantises round their inputs to int8; experts are left as they are."""
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear) and f"{name}.weight_scale" in stored:
            module.register_forward_pre_hook(partial(_rounded, stored.get(f"{name}.input_scale")))


def _rounded(scale: Tensor | None, _module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Return the inputs in steps of a static scale, or of a scale for each token."""
    first, *others = inputs
    step = first.abs().amax(-1, keepdim=True).clamp_min(1e-30) / 127 if scale is None else scale
    return ((first / step).round().clamp(-128, 127).mul(step).to(first.dtype), *others)


def logits_of(model: nn.Module, tokens: Tensor) -> Tensor:
    """Return the logits of every position."""
    with ONE_MODEL_AT_A_TIME, torch.no_grad():
        logits: Tensor = model(tokens).logits
    return logits


def embedding_of(model: nn.Module, tokens: Tensor) -> Tensor:
    """Return the hidden states of the last token, of length 1."""
    with ONE_MODEL_AT_A_TIME, torch.no_grad():
        hidden: Tensor = model.model(tokens).last_hidden_state[0, -1]
    return nn.functional.normalize(hidden, dim=0)
