"""Calls of the products of LoRA adapters."""

from typing import Any

import numpy as np
import torch

from support.arrays import rounded
from support.extension_calls import Case, Wrong
from support.numpy_rules import floats
from support.tensors import bf16, f32

BS, BE, SS, SE = (f"_C_ascend::{kind}_{part}" for kind in ("bgmv", "sgmv") for part in ("shrink", "expand"))


def whole(make: Any, *shape: int) -> torch.Tensor:
    """Small integers, whose sums are exact in any order."""
    return make(*shape).float().round().clamp(-4, 4).to(make(1).dtype)


def rows_of(indices: torch.Tensor, seq_len: torch.Tensor | None, rows: int) -> list[int]:
    chosen = indices.tolist()
    if seq_len is None:
        return chosen
    adapters = [adapter for adapter, count in zip(chosen, seq_len.tolist(), strict=True) for _ in range(count)]
    return (adapters + [-1] * rows)[:rows]


def shrunk(x: Any, weight: Any, indices: Any, *others: Any) -> list[Any]:
    seq_len, y, scale = others if len(others) == 3 else (None, *others)
    out = y.numpy().copy()
    for row, adapter in enumerate(rows_of(indices, seq_len, len(x))):
        if adapter >= 0:
            matrix = floats(weight.reshape(len(weight), -1, x.size(1)))[adapter]
            out[row] = (matrix @ floats(x)[row]) * np.float32(scale)
    return [out]


def expanded(x: Any, weight: Any, indices: Any, *others: Any) -> list[Any]:
    seq_len, y, offset, size = others if len(others) == 4 else (None, *others)
    out = floats(y).copy()
    for row, adapter in enumerate(rows_of(indices, seq_len, len(x))):
        if adapter >= 0:
            matrix = floats(weight.reshape(len(weight), size, -1))[adapter]
            out[row, offset : offset + size] += matrix @ x.numpy()[row]
    return [rounded(out, y.dtype)] * 2


def ints(*values: int) -> torch.Tensor:
    return torch.tensor(values)


X, A, B = whole(bf16, 5, 32), whole(bf16, 3, 8, 32), whole(bf16, 3, 1, 48, 8)
S, Y, Z = whole(f32, 5, 8), f32(5, 8), bf16(5, 80)
EACH, GROUPS, LENGTHS = ints(2, 0, -1, 1, 2), ints(1, -1, 0), ints(2, 1, 1)
VALID = [
    Case(BS, "bfloat16", (X, A, EACH, Y, 0.5), expected=shrunk, writes=("y",)),
    Case(BS, "float16, four dimensions", (X.half(), A.half()[:, None], EACH, Y, 2.0), expected=shrunk, writes=("y",)),
    Case(BE, "bfloat16, slice", (S, B, EACH, Z, 16, 48), expected=expanded, writes=("y",)),
    Case(BE, "float16", (S, B.half(), EACH, Z.half(), 0, 48), expected=expanded, writes=("y",)),
    Case(SS, "bfloat16", (X, A, GROUPS, LENGTHS, Y, 0.5), expected=shrunk, writes=("y",)),
    Case(SE, "bfloat16, slice", (S, B, GROUPS, LENGTHS, Z, 32, 48), expected=expanded, writes=("y",)),
]
WRONG = [
    Wrong(BS, "y must be torch.float32, got torch.bfloat16", (X, A, EACH, Y.bfloat16(), 1.0)),
    Wrong(BS, "indices must be torch.int64, got torch.int32", (X, A, EACH.int(), Y, 1.0)),
    Wrong(BS, "x must be contiguous", (bf16(32, 5).t(), A, EACH, Y, 1.0)),
    Wrong(BE, "x.size(1) must be 8, 16, 32 or 64, the rank, got 4", (f32(5, 4), B, EACH, Z, 0, 48)),
    Wrong(BE, "slice_offset + slice_size must be at most y.size(1), got 88 and 80", (S, B, EACH, Z, 40, 48)),
    Wrong(SE, "lora_indices.size(0) must equal seq_len.size(0), got 2 and 3", (S, B, GROUPS[:2], LENGTHS, Z, 0, 48)),
]
