"""Calls of npu_kronecker_quant."""

from typing import Any

import numpy as np
import torch
import torch_npu
from hypothesis import strategies as st

from support.call_strategies import Draw, mostly, tensor
from support.call_table import Case, Statement, bad, good
from support.numpy_rules import floats, pack
from support.tensors import bf16, f16, f32, i8, nz

OP = "kronecker_quant"
X, P1, P2 = f16(3, 5, 16), f16(5, 5), f16(16, 16)
GOOD = [
    good(OP, "float16", X, P1, P2),
    good(OP, "clipped", X, P1, P2, 0.75),
    good(OP, "bfloat16, spelled out", bf16(3, 5, 16), bf16(5, 5), bf16(16, 16), 1.0, 3, 0.0),
    good(OP, "one row a token", f16(2, 1, 8), f16(1, 1), f16(8, 8)),
    good(OP, "zeros", torch.zeros(2, 4, 8).half(), f16(4, 4), f16(8, 8)),
    good(OP, "views", f16(5, 3, 16).transpose(0, 1), P1.t(), P2.t()),
]
WRONG = [
    bad(OP, "x", "x float32", f32(3, 5, 16), P1, P2),
    bad(OP, "x", "x of two dimensions", f16(5, 16), P1, P2),
    bad(OP, "x.size(0)", "no token", f16(0, 5, 16), P1, P2),
    bad(OP, "x.size(0)", "too many tokens", torch.zeros(262145, 1, 8).half(), f16(1, 1), f16(8, 8)),
    bad(OP, "x.size(1)", "too many rows", f16(1, 257, 8), f16(257, 257), f16(8, 8)),
    bad(OP, "x.size(2)", "too wide", f16(1, 1, 264), f16(1, 1), f16(264, 264)),
    bad(OP, "x.size(2)", "twelve columns", f16(3, 5, 12), P1, f16(12, 12)),
    bad(OP, "kronecker_p1", "p1 of another dtype", X, bf16(5, 5), P2),
    bad(OP, "kronecker_p1", "p1 of one dimension", X, f16(5), P2),
    bad(OP, "kronecker_p1.size(1)", "p1 not square", X, f16(5, 4), P2),
    bad(OP, "kronecker_p2", "p2 int8", X, P1, i8(16, 16)),
    bad(OP, "kronecker_p2", "p2 of three dimensions", X, P1, f16(1, 16, 16)),
    bad(OP, "kronecker_p2.size(0)", "p2 of another width", X, P1, f16(8, 16)),
    bad(OP, "clip_ratio", "ratio 0", X, P1, P2, 0.0),
    bad(OP, "clip_ratio", "ratio above 1", X, P1, P2, 1.5),
    bad(OP, "dst_dtype", "int8", X, P1, P2, 1.0, 1),
    bad(OP, "dst_dtype", "float4 of Ascend 950", X, P1, P2, 1.0, 296),
    bad(OP, "dst_type_max", "dst_type_max of Ascend 950", X, P1, P2, 1.0, None, 6.0),
]
WRONG_FORMATS = [bad(OP, "x", "in FRACTAL_NZ", nz(X), P1, P2)]


def golden() -> Case:
    return lambda x, p1, p2: torch_npu.npu_kronecker_quant(x, p1, p2, 0.5), (X, P1, P2)


GOLDEN = {"kronecker_quant": golden()}


@st.composite
def calls(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    half = draw(st.sampled_from([torch.float16, torch.bfloat16]))
    m, n = draw(st.sampled_from([1, 3])), draw(st.sampled_from([8, 16]))
    matrices = tensor(draw, (m, m), half), tensor(draw, (n, n), half)
    options = {"clip_ratio": mostly(draw, draw(st.sampled_from([None, 0.5])), st.sampled_from([0.0, 2.0]))}
    return (tensor(draw, (draw(st.sampled_from([0, 1, 2])), m, n), half), *matrices), options


def expected(x: torch.Tensor, p1: torch.Tensor, p2: torch.Tensor, clip_ratio: float = 1.0) -> Any:
    """Token by token; the data keeps the sums exact."""
    words, scales = [], []
    ratio = np.float32(clip_ratio)
    for token in floats(x).astype(np.float64):
        inner = torch.from_numpy(token @ floats(p2)).to(x.dtype).double().numpy()
        rotated = (floats(p1).astype(np.float64) @ inner).astype(np.float16).astype(np.float32)
        largest = np.abs(rotated).max()
        if len(rotated) == 1:
            scale = largest * (ratio / np.float32(7))
            scaled = rotated / scale if scale else np.zeros_like(rotated)
        else:
            scale = largest * ratio / np.float32(7)
            scaled = rotated * ((np.float32(7) / ratio) / largest if largest else np.float32(7))
        whole = np.rint(scaled.astype(np.float16).astype(np.float32))
        words.append(pack(np.clip(whole, -8, 7).astype(np.int8)))
        scales.append(scale)
    return np.stack(words), np.asarray(scales, np.float32)


@st.composite
def with_data(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Numbers of few bits: sums of their products are exact in float32, in any order."""
    half = draw(st.sampled_from([torch.float16, torch.bfloat16]))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**16)))
    m, n = draw(st.sampled_from([1, 4])), draw(st.sampled_from([8, 16]))

    def few(*shape: int) -> torch.Tensor:
        return (torch.randint(-8, 9, shape, generator=generator) / 4).to(half)

    ratio = draw(st.sampled_from([1.0, 0.9, 0.3]))
    return (few(draw(st.sampled_from([1, 3])), m, n), few(m, m), few(n, n)), {"clip_ratio": ratio}


CALLS = {"npu_kronecker_quant": calls()}
STATEMENTS = {"npu_kronecker_quant": Statement(expected, with_data())}
