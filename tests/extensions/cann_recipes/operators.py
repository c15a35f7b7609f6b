"""Calls of the recipes' operators."""

from typing import Any

import numpy as np
import torch

from support.arrays import exp, to_int8
from support.extension_calls import Case, Wrong
from support.numpy_rules import floats
from support.tensors import bf16, ends, f16, f32, i8

CLIP, SCATTER = "custom::npu_swiglu_clip_quant", "custom::scatter_nd_update_asc"
ONE = np.float32(1)


def clipped(x: Any, counts: Any, alpha: Any, activate_left: bool = False) -> list[Any]:
    """Row by row; rows of no group are zero."""
    half = x.size(1) // 2
    y, scales, start = np.zeros((len(x), half), np.int8), np.zeros(len(x), np.float32), 0
    for group, count in enumerate(counts.tolist()):
        for row in range(start, start + count):
            left, right = floats(x)[row, :half], floats(x)[row, half:]
            a, b = (left, right) if activate_left else (right, left)
            s = b * (a / (ONE + exp(-a)))
            bound = np.abs(s).max() * alpha.numpy()[group]
            scales[row] = bound * np.float32(1 / 127)
            y[row] = to_int8(np.clip(s, -bound, bound) / scales[row])
        start += count
    return [y, scales]


def scattered(var: torch.Tensor, indices: torch.Tensor, update: torch.Tensor) -> list[Any]:
    out = var.float().numpy().copy()
    for (row,), values in zip(indices.tolist(), update.float().numpy(), strict=True):
        if row >= 0:
            out[row] = values
    return [out.astype(np.int8) if var.dtype == torch.int8 else out]


X, COUNTS, ALPHA = bf16(6, 128), ends(2, 0, 3, dtype=torch.int64), f32(3).sigmoid()
ROWS = torch.tensor([[2], [-1], [0], [2]])
VALID = [
    Case(CLIP, "groups", (X, COUNTS, ALPHA), expected=clipped),
    Case(CLIP, "left half", (X, COUNTS, ALPHA), {"activate_left": True}, clipped),
    Case(SCATTER, "bfloat16", (bf16(5, 128), ROWS, bf16(4, 128)), {}, scattered, ("var",)),
    Case(SCATTER, "int8, int32 indices", (i8(5, 1), ROWS.int(), i8(4, 1)), {}, scattered, ("var",)),
]
WRONG = [
    Wrong(CLIP, "x must be torch.bfloat16, got torch.float16", (X.half(), COUNTS, ALPHA)),
    Wrong(CLIP, "x.size(1) must be a multiple of 64, got 96", (bf16(6, 96), COUNTS, ALPHA)),
    Wrong(SCATTER, "var.size(1) must be 1, 128 or 512, got 64", (f16(5, 64), ROWS, f16(4, 64))),
    Wrong(SCATTER, "update must be torch.int8, the dtype of var", (i8(5, 1), ROWS, f16(4, 1))),
]
