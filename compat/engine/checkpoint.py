"""Checkpoints in the format of msModelSlim, as vllm-ascend reads them, from checkpoints of transformers."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

_LINEAR = re.compile(r"model\.layers\..*\.(?P<name>\w+_proj(_with_mqa)?|wq_b|wk)\.weight")
_EXPERT = re.compile(r"\.experts\.\d+\.")
_FILE = "model.safetensors"
# The ranks among which msModelSlim splits the offsets of a down projection.
_SPLIT = 16


def quantise(plain: Path, out: Path, scheme: str, unquantised: Collection[str], inputs: Mapping[str, Tensor]) -> None:
    """Quantise the linears of ``plain`` into ``out``, and replace those in ``plain`` by their dequantised values.

    ``inputs`` are the largest magnitudes that static schemes need, by the name of the linear. W4A8_DYNAMIC has four
    bits for experts only: vllm-ascend has no such linears.
    """
    stored: dict[str, Tensor] = {}
    description: dict[str, str] = {"model_quant_type": scheme}
    dequantised: dict[str, Tensor] = {}
    for name, weight in load_file(plain / _FILE).items():
        linear = _LINEAR.fullmatch(name)
        if linear is None or linear["name"] in unquantised:
            stored[name] = dequantised[name] = weight
            description[name] = "FLOAT"
            continue
        own = "W8A8_DYNAMIC" if scheme == "W4A8_DYNAMIC" and not _EXPERT.search(name) else scheme
        integers, scale = _rounded(weight, 4 if own == "W4A8_DYNAMIC" else 8)
        dequantised[name] = integers * scale
        prefix = name.removesuffix(".weight")
        parts = {"weight": integers, "weight_scale": scale, "weight_offset": torch.zeros_like(scale)}
        if own == "W8A8":
            parts |= _static(integers, scale, inputs[prefix])
        if own == "W4A8_DYNAMIC":
            parts |= {"weight": _packed(integers), "scale_bias": _scale_bias(integers, scale, linear["name"])}
        stored |= {f"{prefix}.{part}": tensor for part, tensor in parts.items()}
        description |= dict.fromkeys((f"{prefix}.{part}" for part in parts), own)
    save_file(stored, out / _FILE, metadata={"format": "pt"})
    save_file(dequantised, plain / _FILE, metadata={"format": "pt"})
    (out / "quant_model_description.json").write_text(json.dumps(description))


def _rounded(weight: Tensor, bits: int) -> tuple[Tensor, Tensor]:
    """Return integers and the scale of each row, which vllm-ascend keeps in bfloat16."""
    largest = 2 ** (bits - 1) - 1
    scale = (weight.float().abs().amax(1, keepdim=True) / largest).bfloat16().float()
    return (weight.float() / scale).round().clamp(-largest, largest).to(torch.int8), scale


def _static(integers: Tensor, scale: Tensor, largest: Tensor) -> dict[str, Tensor]:
    """Return the parts of a static scheme with symmetric activations."""
    # vllm-ascend keeps the scale and its reciprocal in bfloat16: both hold powers of two exactly.
    input_scale = torch.exp2((largest / 127).log2().ceil()).float().reshape(1)
    return {
        "input_scale": input_scale,
        "input_offset": torch.zeros(1),
        "deq_scale": (scale.squeeze(1) * input_scale).float(),
        "quant_bias": torch.zeros(len(integers), dtype=torch.int32),
    }


def _packed(integers: Tensor) -> Tensor:
    """Return int4, two outputs to a byte."""
    return ((integers[0::2] & 0xF) | (integers[1::2] << 4)).contiguous()


def _scale_bias(integers: Tensor, scale: Tensor, name: str) -> Tensor:
    """Return what eight times each row's weights sum to: kernels multiply int8 by the two halves of its bits."""
    bias = 8 * (integers * scale).sum(1, keepdim=True)
    return (bias / _SPLIT).expand(-1, _SPLIT).contiguous() if name == "down_proj" else bias
