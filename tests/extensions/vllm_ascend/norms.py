"""Calls of npu_add_rms_norm_bias and npu_gemma_rms_norm."""

from typing import Any

import numpy as np
import torch

from support.arrays import rounded
from support.extension_calls import Case, Wrong
from support.numpy_rules import floats
from support.tensors import bf16, f16, f32

ADD, GEMMA = "_C_ascend::npu_add_rms_norm_bias", "_C_ascend::npu_gemma_rms_norm"
ONE = np.float32(1)


def few(make: Any, *shape: int) -> torch.Tensor:
    """Integers whose sums the dtype has to round, in three columns: their squares add up exactly in any order."""
    base = {f16: 2048, bf16: 256, f32: 2**24}[make]
    x = torch.zeros(shape)
    x[..., :3] = base * (1 - 2 * (torch.arange(x[..., :3].numel()) % 2).reshape(x[..., :3].shape))
    return x.to(make(1).dtype)


def added(x: torch.Tensor) -> torch.Tensor:
    other = torch.zeros(x.shape)
    other[..., :3] = (torch.arange(other[..., :3].numel()).reshape(other[..., :3].shape) + 1) % 4
    return other.to(x.dtype)


def norm(wide: Any, width: int, epsilon: float) -> Any:
    squares = (wide.astype(np.float64) ** 2).sum(-1, keepdims=True).astype(np.float32)
    return ONE / np.sqrt(squares * np.float32(1 / width) + np.float32(epsilon))


def stated(kernel: str) -> Any:
    """The statement of one of the extension's kernels, which reads the rounded sum, the sum itself, or both."""

    def expected(
        x1: torch.Tensor, x2: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor | None = None, epsilon: float = 1e-6
    ) -> list[Any]:
        wide = floats(x1) + floats(x2)
        x = rounded(wide, x1.dtype)
        rstd = norm(x if kernel == "rounded" else wide, x1.size(-1), epsilon)
        y = rounded((wide if kernel == "sum" else x) * rstd, x1.dtype) * floats(gamma)
        y = rounded(y, x1.dtype) if x1.dtype == torch.float16 else y
        y = y if beta is None else y + floats(beta)
        return [rounded(y, x1.dtype), rstd, x]

    return expected


def case(kernel: str, label: str, make: Any, *shape: int, beta: bool = False, epsilon: float = 1e-6) -> Case:
    x = few(make, *shape)
    args = (x, added(x), make(shape[-1]), make(shape[-1]) if beta else None, epsilon)
    return Case(ADD, label, args, expected=stated(kernel))


def gemma(x: torch.Tensor, gamma: torch.Tensor, epsilon: float = 1e-6) -> list[Any]:
    rstd = norm(floats(x), x.size(-1), epsilon)
    return [rounded(floats(x) * rstd * (floats(gamma) + ONE), x.dtype), rstd]


# Kernels by rows and width, as add_rms_norm_bias_tiling.cpp selects them on A2, which has 40 vector cores here.
VALID = [
    case("rounded", "float16", f16, 6, 16),
    case("rounded", "float16, beta", f16, 6, 16, beta=True),
    case("rounded", "float32, beta", f32, 6, 16, beta=True),
    case("rounded", "bfloat16, narrow", bf16, 41, 2000),
    case("rounded", "bfloat16, narrow, beta", bf16, 41, 1600, beta=True),
    case("rounded", "bfloat16, a core per row", bf16, 40, 2017),
    case("rounded", "bfloat16, several rows", bf16, 41, 2016),
    case("rounded", "bfloat16, several rows, beta", bf16, 41, 1616, beta=True),
    case("rounded", "bfloat16, several rows of matrices", bf16, 6, 8, 2016),
    case("sum", "bfloat16, columns not aligned", bf16, 41, 2017),
    case("sum", "bfloat16, columns not aligned, beta", bf16, 41, 1601, beta=True),
    case("sum", "bfloat16, matrices of many rows", bf16, 5, 9, 2016),
    case("sum", "bfloat16, more columns", bf16, 41, 5136),
    case("sum", "bfloat16, more rows", bf16, 513, 2016),
    case("both", "bfloat16, wider than a core", bf16, 2, 12289),
    case("both", "bfloat16, wider than a core, beta", bf16, 2, 11265, beta=True),
    case("rounded", "one row, large epsilon", bf16, 64, beta=True, epsilon=0.5),
    Case(GEMMA, "bfloat16", (few(bf16, 3, 16), bf16(16)), expected=gemma),
    Case(GEMMA, "float16", (few(f16, 2, 3, 16), f16(16), 0.1), expected=gemma),
]
X = f16(2, 16)
WRONG = [
    Wrong(ADD, "x2 must be torch.float16, the dtype of x1, got torch.bfloat16", (X, X.bfloat16(), f16(16))),
    Wrong(ADD, "beta.size(0) must equal gamma.size(0), got 8 and 16", (X, X, f16(16), f16(8))),
    Wrong(ADD, "epsilon must be at least 0, got -1.0", (X, X, f16(16), None, -1.0)),
    Wrong(GEMMA, "gamma must be torch.float16, the dtype of input, got torch.float32", (X, f32(16))),
]
