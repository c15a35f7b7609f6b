"""Calls of npu_mhc_post and of its gradient."""

from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from support.call_strategies import SEEDS, Draw, tensor
from support.call_table import Statement, bad
from support.tensors import bf16, f16, f32, nz

OP, BACK = "mhc_post", "mhc_post_backward"


def layer(make: Any = f16, tokens: tuple[int, ...] = (2,), streams: int = 4, channels: int = 128) -> list[Any]:
    return [
        make(*tokens, streams, channels),
        f32(*tokens, streams, streams),
        make(*tokens, channels),
        f32(*tokens, streams),
    ]


X, RES, OUT, POST = layer()
# Upstream has no lowering, so they only run eagerly: the allowed calls are generated below.
WRONG = [
    bad(OP, "x", "float32", *layer(f32)),
    bad(OP, "x", "two dimensions", X[0], RES[0], OUT[0], POST[0]),
    bad(OP, "x.size(0)", "no token", *layer(tokens=(0,))),
    bad(OP, "x.size(-2)", "two streams", *layer(streams=2)),
    bad(OP, "x.size(-1)", "64 channels", *layer(channels=64)),
    bad(OP, "x.size(-1)", "too many channels", *layer(tokens=(1,), channels=100096)),
    bad(OP, "h_res", "none, as on Ascend 950", X, None, OUT, POST),
    bad(OP, "h_res", "halves", X, RES.half(), OUT, POST),
    bad(OP, "h_res.size(2)", "not square", X, RES[..., :3], OUT, POST),
    bad(OP, "h_out", "another dtype", X, RES, OUT.bfloat16(), POST),
    bad(OP, "h_out", "with streams", X, RES, X, POST),
    bad(OP, "h_post.size(1)", "of three streams", X, RES, OUT, POST[:, :3]),
    bad(BACK, "grad_y", "another dtype", X.bfloat16(), X, RES, OUT, POST),
    bad(BACK, "grad_y.size(0)", "of one token", X[:1], X, RES, OUT, POST),
]
WRONG_FORMATS = [bad(OP, "x", "in FRACTAL_NZ", nz(X), RES, OUT, POST)]


def expected(x: torch.Tensor, h_res: torch.Tensor, h_out: torch.Tensor, h_post: torch.Tensor) -> Any:
    """In float64."""
    streams, mixed, out, post = (tensor.double().numpy() for tensor in (x, h_res, h_out, h_post))
    return np.einsum("...ij,...id->...jd", mixed, streams) + post[..., None] * out[..., None, :]


def expected_gradient(grad: torch.Tensor, *inputs: torch.Tensor) -> list[Any]:
    """The four sums in float64."""
    up, streams, mixed, out, post = (tensor.double().numpy() for tensor in (grad, *inputs))
    return [
        np.einsum("...ij,...jd->...id", mixed, up),
        np.einsum("...id,...jd->...ij", streams, up),
        np.einsum("...j,...jd->...d", post, up),
        np.einsum("...d,...jd->...j", out, up),
    ]


@st.composite
def with_data(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    draw(SEEDS)
    return tuple(layer(draw(st.sampled_from([f16, bf16])), draw(st.sampled_from([(3,), (2, 2)])))), {}


@st.composite
def gradients(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    draw(SEEDS)
    make, tokens = draw(st.sampled_from([f16, bf16])), draw(st.sampled_from([(3,), (2, 2)]))
    streams, channels = draw(st.sampled_from([2, 4])), draw(st.sampled_from([5, 128]))
    return (make(*tokens, streams, channels), *layer(make, tokens, streams, channels)), {}


@st.composite
def calls(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return tuple(tensor(draw, tuple(like.shape), like.dtype) for like in (X, RES, OUT, POST)), {}


CALLS = {f"npu_{OP}": calls()}
# One rounding to bfloat16.
STATEMENTS = {
    f"npu_{OP}": Statement(expected, with_data(), bound=2.0**-8, sample=20),
    f"npu_{BACK}": Statement(expected_gradient, gradients(), bound=2.0**-8, sample=20),
}
