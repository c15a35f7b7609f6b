"""npu_mhc_post and its gradient: argument rules and results.

x is (batch, tokens, 4, channels) or (tokens, 4, channels) of float16 or bfloat16, not empty, with channels a multiple
of 128 up to 100000; h_out has no streams, h_post (..., 4) and h_res (..., 4, 4) are float32. The document of
torch_npu names Ascend 950 only, that of the kernels A2 and A3 too, where h_res must be given. The gradient takes any
number of streams and channels.
"""

from __future__ import annotations

import torch
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import ND, Rules, Size
from graph_quant.reference.norm import mhc_post as reference
from torch import Tensor

STREAMS, STEP, MOST = 4, 128, 100000


def _check(rules: Rules, x: Tensor, h_res: Tensor | None, h_out: Tensor, h_post: Tensor) -> None:
    rules.dtype("x", x, (torch.float16, torch.bfloat16))
    rules.rank("x", x, 3, 4)
    rules.not_empty("x", x)
    if h_res is None:
        rules.refuse("h_res must be given on A2 and A3, None is for Ascend 950, got None")
    tokens = tuple(x.shape[:-2])
    streams = x.size(-2)
    _check_part(rules, "h_res", h_res, torch.float32, (*tokens, streams, streams))
    _check_part(rules, "h_out", h_out, x.dtype, (*tokens, x.size(-1)))
    _check_part(rules, "h_post", h_post, torch.float32, (*tokens, streams))


def _check_part(rules: Rules, name: str, part: Tensor, dtype: torch.dtype, sizes: tuple[Size, ...]) -> None:
    rules.dtype(name, part, (dtype,))
    rules.rank(name, part, len(sizes), why=" beside such an x")
    for dim, size in enumerate(sizes):
        rules.equal(f"{name}.size({dim})", part.size(dim), "the size that x gives it", size)


@operator("npu_mhc_post", reference=reference.mhc_post)
def mhc_post(rules: Rules, x: Tensor, h_res: Tensor | None, h_out: Tensor, h_post: Tensor) -> Plan:
    """Check a call against the documented rules and return its plan."""
    _check(rules, x, h_res, h_out, h_post)
    rules.equal("x.size(-2)", x.size(-2), "the streams", STREAMS)
    channels = x.size(-1)
    rules.require(channels % STEP == 0, lambda: f"x.size(-1) must be a multiple of {STEP}, got {channels}")
    rules.format("x", x, ND)
    rules.require(channels <= MOST, lambda: f"x.size(-1) must be at most {MOST}, got {channels}")
    return Plan((Result(tuple(x.shape), x.dtype),))


@operator("npu_mhc_post_backward", reference=reference.mhc_post_backward)
def mhc_post_backward(
    rules: Rules, grad_y: Tensor, x: Tensor, h_res: Tensor | None, h_out: Tensor, h_post: Tensor
) -> Plan:
    """Check a call against the documented rules and return its plan."""
    _check(rules, x, h_res, h_out, h_post)
    rules.like("grad_y", grad_y, "x", x)
    mixed = Result((*x.shape[:-1], x.size(-2)), torch.float32)
    return Plan(
        (
            Result(tuple(x.shape), x.dtype),
            mixed,
            Result(tuple(h_out.shape), x.dtype),
            Result(tuple(h_post.shape), torch.float32),
        )
    )
