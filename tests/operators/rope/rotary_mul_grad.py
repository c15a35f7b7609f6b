"""Calls of the gradient of npu_rotary_mul."""

from typing import Any

import torch
from hypothesis import strategies as st

from support.call_strategies import FLOATS, SIZES, Draw, mostly, tensor
from support.call_table import Statement, bad, good
from support.tensors import bf16, f16, f32, i8

BACK = "rotary_mul_backward"
X, R = f16(2, 3, 4, 16), f16(1, 3, 1, 16)
SHAPES = {"half": [(2, 3, 4), (1, 3, 1), (2, 3, 1), (1, 1, 4), (2, 1, 4), (2, 1, 1)]}
SHAPES["interleave"] = [SHAPES["half"][index] for index in (1, 3, 5)]
THREE = {"half": [(2, 3), (2, 1), (1, 3), (1, 1)], "interleave": [(2, 1), (1, 3), (1, 1)]}
GOOD = [
    *(
        good(BACK, f"{mode} {shape}", bf16(2, 3, 4, 16), bf16(2, 3, 4, 16), *[bf16(*shape, 16)] * 2, mode)
        for mode, shapes in SHAPES.items()
        for shape in shapes
    ),
    *(
        good(BACK, f"{mode} {shape}", bf16(2, 3, 16), bf16(2, 3, 16), *[bf16(*shape, 16)] * 2, mode)
        for mode, shapes in THREE.items()
        for shape in shapes
    ),
    good(BACK, "float16", X, X, R, R),
    good(BACK, "float32", f32(2, 3, 4, 6), f32(2, 3, 4, 6), f32(1, 3, 1, 6), f32(1, 3, 1, 6)),
    good(BACK, "other dtypes", f32(2, 3, 4, 16), X, f32(1, 3, 1, 16), bf16(1, 3, 1, 16), "interleave"),
    good(BACK, "not contiguous", f16(2, 4, 3, 16).transpose(1, 2), X, R, R),
    good(BACK, "one position", f16(1, 1, 4, 2), f16(1, 1, 4, 2), f16(1, 1, 1, 2), f16(1, 1, 1, 2)),
]
MANY = (f16(3, 1, 400, 2), f16(3, 1, 400, 2), f16(1, 1, 1, 2), f16(1, 1, 1, 2))
WIDE = (*[f16(1, 3, 1, 898)] * 4,)
WRONG = [
    bad(BACK, "input", "int8", X, i8(2, 3, 4, 16), R, R),
    bad(BACK, "input", "two dimensions", *[f16(5, 8)] * 4),
    bad(BACK, "grad", "grad of another rank", f16(5, 1, 2, 8), f16(5, 2, 8), f16(5, 1, 8), f16(5, 1, 8)),
    bad(BACK, "r1.size", "interleaved, three dimensions, of every element", *[f16(5, 2, 8)] * 4, "interleave"),
    bad(BACK, "grad", "grad int8", i8(2, 3, 4, 16), X, R, R),
    bad(BACK, "grad.size(0)", "grad of other rows", f16(1, 3, 4, 16), X, R, R),
    bad(BACK, "input.size(0)", "nothing", f16(0, 3, 4, 16), f16(0, 3, 4, 16), R, R),
    bad(BACK, "input.size(-1)", "an odd width", *[f16(2, 3, 4, 15)] * 2, *[f16(1, 3, 1, 15)] * 2),
    bad(BACK, "input.size(-1)", "too wide", *WIDE),
    bad(BACK, "r1", "r1 int8", X, X, i8(1, 3, 1, 16), R),
    bad(BACK, "r1", "r1 of another rank", X, X, f16(3, 1, 16), R),
    bad(BACK, "r1.size(-1)", "r1 too narrow", X, X, *[f16(1, 3, 1, 8)] * 2),
    bad(BACK, "r1.size", "one row for all", X, X, *[f16(1, 1, 1, 16)] * 2),
    bad(BACK, "r1.size", "shared by the batch, for every head", X, X, *[f16(1, 3, 4, 16)] * 2),
    bad(BACK, "r1.size", "interleaved, of a batch", X, X, *[f16(2, 3, 1, 16)] * 2, "interleave"),
    bad(BACK, "r1.size", "interleaved, of every element", X, X, X, X, "interleave"),
    bad(BACK, "1024 terms", "too many terms", *MANY),
    bad(BACK, "999 terms", "too many terms to interleave", *MANY, "interleave"),
    bad(BACK, "r2.size(1)", "r2 of fewer positions", X, X, R, f16(1, 1, 1, 16)),
    bad(BACK, "rotary_mode", "quarter", X, X, R, R, "quarter"),
]

GOOD_950 = [
    good(BACK, "quarter", X, X, R, R, "quarter"),
    good(BACK, "neighbours to halves", X, X, R, R, "interleave-half"),
    good(BACK, "the widest", *[f16(1, 3, 1, 1024)] * 4),
    good(BACK, "one row for all", X, X, *[f16(1, 1, 1, 16)] * 2),
    good(BACK, "shared by the batch", X, X, *[f16(1, 3, 4, 16)] * 2),
    good(BACK, "interleaved, of every element", X, X, X, X, "interleave"),
    good(BACK, "many terms", *MANY),
]


@st.composite
def calls(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    shape = tuple(draw(st.lists(SIZES, min_size=4, max_size=4)))
    r = tuple(mostly(draw, 1, st.just(size)) for size in shape[:-1]) + shape[-1:]
    x = tensor(draw, shape, *FLOATS)
    rest = tensor(draw, r, x.dtype), tensor(draw, r, *FLOATS)
    return (tensor(draw, shape, *FLOATS), x, *rest, draw(st.sampled_from(["half", "interleave", "x"]))), {}


CALLS = {f"npu_{BACK}": calls()}


def expected(grad: torch.Tensor, x: torch.Tensor, r1: torch.Tensor, r2: torch.Tensor, mode: str) -> list[torch.Tensor]:
    """The gradients of the rotation by autograd, in float64."""
    at, cos, sin = (tensor.to(x.dtype).double().requires_grad_() for tensor in (x, r1, r2))
    if mode == "interleave-half":
        at_apart = torch.cat([at[..., ::2], at[..., 1::2]], -1)
        rotated = torch.cat([-at[..., 1::2], at[..., ::2]], -1)
        (at_apart * cos + rotated * sin).backward(grad.to(x.dtype).double())
        return [tensor.grad.to(x.dtype) for tensor in (at, cos, sin)]  # type: ignore[union-attr]
    if mode == "quarter":
        a, b, c, d = at.chunk(4, -1)
        rotated = torch.cat([-b, a, -d, c], -1)
    elif mode == "half":
        rotated = torch.cat([-at[..., at.size(-1) // 2 :], at[..., : at.size(-1) // 2]], -1)
    else:
        rotated = torch.stack([-at[..., 1::2], at[..., ::2]], -1).reshape(at.shape)
    (at * cos + rotated * sin).backward(grad.to(x.dtype).double())
    return [tensor.grad.to(x.dtype) for tensor in (at, cos, sin)]  # type: ignore[union-attr]


@st.composite
def data(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    make, width = draw(st.sampled_from([f16, bf16, f32])), draw(st.sampled_from([2, 16, 30]))
    mode = draw(st.sampled_from(list(SHAPES)))
    of_x, shapes = draw(st.sampled_from([((2, 3, 4), SHAPES), ((2, 3), THREE)]))
    shape, other = draw(st.sampled_from(shapes[mode])), draw(st.sampled_from([make, f32]))
    return (make(*of_x, width), make(*of_x, width), other(*shape, width), other(*shape, width), mode), {}


# The last rounding, to bfloat16, moves a result by 2**-9; float32 sums of at most 24 products by less than 2**-18.
STATEMENTS = {f"npu_{BACK}": Statement(expected, data(), 2**-8, sample=25)}


@st.composite
def data_950(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    make, width = draw(st.sampled_from([f16, bf16, f32])), draw(st.sampled_from([4, 16, 40]))
    mode = draw(st.sampled_from(["half", "interleave", "quarter", "interleave-half"]))
    shape = draw(st.sampled_from([(1, 1, 1), (2, 1, 4), (1, 3, 4), (2, 3, 4), (1, 3, 1)]))
    return (make(2, 3, 4, width), make(2, 3, 4, width), make(*shape, width), make(*shape, width), mode), {}


STATEMENTS_950 = {f"npu_{BACK}": Statement(expected, data_950(), 2**-8, sample=25)}
npu = torch.ops.npu
GOLDEN = {
    f"{BACK}-half": (lambda g, x, c, s: npu.npu_rotary_mul_backward(g, x, c, s), (X, X.clone(), R, R.clone())),
    f"{BACK}-interleave": (
        lambda g, x, c, s: npu.npu_rotary_mul_backward(g, x, c, s, "interleave"),
        (X, X.clone(), R.float(), R.float()),
    ),
}
