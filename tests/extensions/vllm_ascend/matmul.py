"""Calls of batch_matmul_transpose."""

from typing import Any

import numpy as np
import torch

from support.arrays import rounded
from support.extension_calls import Case, Wrong
from support.numpy_rules import floats
from support.tensors import bf16, f16

OP = "_C_ascend::batch_matmul_transpose"


def expected(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, *_modes: str) -> list[Any]:
    weight = floats(b)
    if b.dim() == 4:
        weight = np.concatenate(np.moveaxis(weight, 1, 0), -1)
    products = np.einsum("mbk,bkn->mbn", floats(a).astype(np.float64), weight.astype(np.float64))
    return [rounded(products.astype(np.float32), c.dtype)]


VALID = [
    Case(OP, label, args, expected=expected, writes=("tensor_c",), bound=2.0**-8)
    for label, args in (
        ("bfloat16", (bf16(5, 3, 32), bf16(3, 32, 16), bf16(5, 3, 16))),
        ("float16", (f16(1, 2, 7), f16(2, 7, 5), f16(1, 2, 5), "ND", "per_token_symm")),
        ("blocks", (bf16(2, 3, 32), bf16(3, 2, 32, 16), bf16(2, 3, 32), "NZ")),
    )
]
A, B, C = VALID[0].args
WRONG = [
    Wrong(OP, "tensor_b must be torch.bfloat16, the dtype of tensor_a, got torch.float16", (A, B.half(), C)),
    Wrong(OP, "tensor_a.size(0) must lie in [1, 1024], got 1025", (bf16(1025, 3, 32), B, bf16(1025, 3, 16))),
    Wrong(OP, "tensor_b.size(1) must equal tensor_a.size(2), got 16 and 32", (A, B[:, :16].contiguous(), C)),
    Wrong(OP, "tensor_c.size(2) must equal n, got 8 and 16", (A, B, bf16(5, 3, 8))),
    Wrong(OP, "tensor_a must be contiguous", (bf16(3, 5, 32).transpose(0, 1), B, C)),
    Wrong(OP, "format_mode must be ND or NZ, got XY", (A, B, C, "XY")),
]
