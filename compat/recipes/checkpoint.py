"""Quantised checkpoints in the format of the recipes' converters, from checkpoints of transformers.

int8 weights have a bfloat16 scale for each output, as in the recipes. int4 weights of experts are packed two outputs to
a byte, their scales are float32 in the lower half of int64, and a bias ``8 * scale * sum(weight)`` compensates for the
kernel, which splits activations into 4-bit halves.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

_LINEAR = re.compile(r"model\.layers\..*\.(?P<name>\w+_proj(_with_mqa)?|wq_b|wk)\.weight")
_EXPERTS = re.compile(r"\.experts\.\d+\.")
_FILE = "model.safetensors"
# Normalised latents are at most a few units large.
_CACHE_SCALE = 0.05


def quantise(plain: Path, out: Path, expert_bits: int, has_int8_cache: bool, unquantised: Collection[str]) -> None:
    """Quantise the linears of ``plain`` into ``out``, and replace those in ``plain`` by their dequantised values."""
    stored: dict[str, Tensor] = {}
    dequantised: dict[str, Tensor] = {}
    for name, weight in load_file(plain / _FILE).items():
        linear = _LINEAR.fullmatch(name)
        if linear is None or linear["name"] in unquantised:
            stored[name] = dequantised[name] = weight
            continue
        bits = expert_bits if _EXPERTS.search(name) else 8
        integers, scale = _integers(weight.float(), bits)
        dequantised[name] = (integers * scale).to(torch.float32)
        stored |= _int4(name, integers, scale) if bits == 4 else _int8(name, integers, scale)
    if has_int8_cache:
        layers = {name.split(".self_attn.")[0] for name in stored if ".self_attn." in name}
        stored |= {f"{layer}.self_attn.ckv_scale": torch.tensor([_CACHE_SCALE]) for layer in layers}
    save_file(stored, out / _FILE, metadata={"format": "pt"})
    save_file(dequantised, plain / _FILE, metadata={"format": "pt"})


def _integers(weight: Tensor, bits: int) -> tuple[Tensor, Tensor]:
    high = 2 ** (bits - 1) - 1
    scale = (weight.abs().amax(1, keepdim=True) / high).bfloat16().float()
    return torch.round(weight / scale).clamp(-high, high).to(torch.int8), scale


def _int8(name: str, integers: Tensor, scale: Tensor) -> dict[str, Tensor]:
    return {name: integers, f"{name}_scale": scale}


def _int4(name: str, integers: Tensor, scale: Tensor) -> dict[str, Tensor]:
    low, high = integers[0::2] & 0xF, integers[1::2] << 4
    bias = (integers.float() * scale * 8).sum(1)
    packed = scale.contiguous().view(torch.int32).long()
    return {name: (low | high).contiguous(), f"{name}_scale": packed, name.replace(".weight", ".bias"): bias}
