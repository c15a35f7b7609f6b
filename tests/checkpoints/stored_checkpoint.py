"""Checkpoints of the right sizes without contents: files with holes, which take no space."""

from __future__ import annotations

import json
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any

from graph_quant.checkpoints.headers import BYTES

Tensors = dict[str, tuple[str, list[int]]]
Write = Callable[..., Path]
CONFIG = {
    "model_type": "qwen3",
    "torch_dtype": "bfloat16",
    "hidden_size": 1024,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "num_hidden_layers": 2,
}


def write_file(path: Path, tensors: Tensors) -> None:
    header: dict[str, Any] = {}
    end = 0
    for name, (dtype, shape) in tensors.items():
        start, end = end, end + prod(shape) * BYTES[dtype]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + end)


def linear(name: str, scheme: str, n: int, k: int, *, group: int = 0, scale: str = "F32", bias: str = "") -> Tensors:
    """The tensors of a linear as msModelSlim stores them."""
    groups = k // group if group else 1
    tensors: Tensors = {f"{name}.weight": ("I8", [n // 2 if scheme.startswith("W4") else n, k])}
    if scheme == "FLOAT":
        return {f"{name}.weight": ("BF16", [n, k])}
    if scheme == "W8A8":
        tensors |= {f"{name}.input_scale": ("BF16", [1]), f"{name}.input_offset": ("BF16", [1])}
        tensors |= {f"{name}.deq_scale": (scale, [n]), f"{name}.quant_bias": ("I32", [n])}
    else:
        tensors |= {f"{name}.weight_{part}": (scale, [n, groups]) for part in ("scale", "offset")}
    return tensors | ({f"{name}.bias": (bias, [n])} if bias else {})


def decoder(index: int, scheme: str = "W8A8_DYNAMIC", **options: Any) -> Tensors:
    """The linears of one layer of the model in CONFIG."""
    sizes = {
        "self_attn.q_proj": (1024, 1024), "self_attn.k_proj": (512, 1024), "self_attn.v_proj": (512, 1024),
        "self_attn.o_proj": (1024, 1024), "mlp.gate_proj": (3072, 1024), "mlp.up_proj": (3072, 1024),
        "mlp.down_proj": (1024, 3072),
    }  # fmt: skip
    tensors: Tensors = {}
    for name, (n, k) in sizes.items():
        tensors |= linear(f"model.layers.{index}.{name}", scheme, n, k, **options)
    return tensors


def description(tensors: Tensors, scheme: str, **extra: Any) -> dict[str, Any]:
    """The description in which every linear has one scheme."""
    named = {name: scheme if dtype in ("I8", "I32") else "FLOAT" for name, (dtype, _) in tensors.items()}
    return {**named, "model_quant_type": scheme, **extra}
