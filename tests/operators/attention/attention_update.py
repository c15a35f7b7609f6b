"""Calls of npu_attention_update."""

from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from support.call_strategies import Draw
from support.call_table import Call, Statement, bad, good, overload
from support.tensors import bf16, f16, f32, f64

NAME = "attention_update"
TWO = [f32(4), f32(4)]
GOOD: list[Call] = [
    good(NAME, "float16", TWO, [f16(4, 16), f16(4, 16)], 1),
    good(NAME, "one part", [f32(4)], [f32(4, 8)], 0),
]
WRONG: list[Call] = [
    bad(NAME, "lse", "seventeen parts", [f32(4)] * 17, [f32(4, 8)] * 17, 1),
    bad(NAME, "local_out", "a part too few", TWO, [f32(4, 8)], 1),
    bad(NAME, "update_type", "type 2", TWO, [f32(4, 8)] * 2, 2),
    bad(NAME, "lse[1]", "float16 sums", [f32(4), f16(4)], [f32(4, 8)] * 2, 1),
    bad(NAME, "lse[0]", "two dimensions", [f32(4, 1)], [f32(4, 8)], 1),
    bad(NAME, "local_out[0]", "float64", [f32(4)], [f64(4, 8)], 1),
    bad(NAME, "local_out[1]", "mixed", TWO, [f32(4, 8), f16(4, 8)], 1),
    bad(NAME, "local_out[0]", "one dimension", [f32(4)], [f32(4)], 1),
    bad(NAME, "lse[0].size(0)", "rows apart", [f32(3)], [f32(4, 8)], 1),
    bad(NAME, "local_out[1].size(1)", "channels apart", TWO, [f32(4, 8), f32(4, 16)], 1),
    bad(NAME, "local_out[0].size(1)", "channels not of 8", [f32(4)], [f32(4, 12)], 1),
    bad(NAME, "local_out[0].size(1)", "too many channels", [f32(4)], [f32(4, 520)], 1),
]


def expected(lse: list[torch.Tensor], local_out: list[torch.Tensor], update_type: int) -> list[Any]:  # noqa: ARG001
    parts = np.stack([tensor.double().numpy() for tensor in lse])
    weights = np.exp(parts - parts.max(0))
    outs = np.stack([tensor.double().numpy() for tensor in local_out])
    joined = (outs * (weights / weights.sum(0))[..., None]).sum(0)
    return [joined.astype(np.float32), (parts.max(0) + np.log(weights.sum(0))).astype(np.float32)]


@st.composite
def calls(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    parts, rows = draw(st.sampled_from([1, 2, 16])), draw(st.sampled_from([1, 5]))
    kind = draw(st.sampled_from([f32, f16, bf16]))
    return ([f32(rows) for _ in range(parts)], [kind(rows, 16) for _ in range(parts)], 1), {}


# One rounding to bfloat16.
STATEMENTS = {f"npu_{NAME}": Statement(expected, calls(), 2.0**-8)}
GOLDEN = {
    NAME: (lambda lse, other, out: overload(f"npu_{NAME}")([lse, other], [out, out], 1), (*TWO, f16(4, 16))),
}
