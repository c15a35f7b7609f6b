"""Calls of npu_moe_gating_top_k_softmax and its second version."""

from typing import Any

import numpy as np
import torch
import torch_npu
from hypothesis import strategies as st

from support.call_strategies import FLOATS, SIZES, Draw, optional, tensor
from support.call_table import Call, Case, Statement, bad, good
from support.numpy_rules import floats
from support.tensors import bf16, f16, f32, f64

OP, V2 = "moe_gating_top_k_softmax", "moe_gating_top_k_softmax_v2"
DONE = torch.tensor([True, False, True, False])
GOOD = [
    good(OP, "one expert", f32(4, 16)),
    good(OP, "float16, finished rows", f16(4, 6), DONE, 2),
    good(OP, "float16, many", f16(4, 20), None, 9),
    good(OP, "batches", bf16(2, 4, 16), torch.stack([DONE, ~DONE]), k=3),
    good(OP, "no token", f32(0, 16), None, 2),
    good(OP, "one token", f32(1, 16), None, 16),
    good(V2, "one expert", f32(4, 16)),
    good(V2, "scores", f16(4, 16), k=2, finished=DONE, output_softmax=True),
    good(V2, "normalised", bf16(4, 16), k=3, renorm=1, output_softmax=True),
    good(V2, "batches, scores", bf16(2, 4, 16), k=3, output_softmax=True),
    good(V2, "no token", f32(0, 16), k=2, renorm=None, output_softmax=None),
]


def _wrong(op: str) -> list[Call]:
    return [
        bad(op, "x", "x of one dimension", f32(16), k=2),
        bad(op, "x", "x float64", f64(4, 16), k=2),
        bad(op, "k", "k zero", f32(4, 16), k=0),
        bad(op, "k", "k above the experts", f32(4, 16), k=17),
        bad(op, "k", "k above 1024", f32(1, 2000), k=1025),
        bad(op, "finished", "finished int8", f32(4, 16), k=2, finished=DONE.to(torch.int8)),
        bad(op, "finished", "finished of two dimensions", f32(4, 16), k=2, finished=DONE[None]),
        bad(op, "finished.size(0)", "finished short", f32(4, 16), k=2, finished=DONE[:3]),
    ]


WRONG = [*_wrong(OP), *_wrong(V2), bad(V2, "renorm", "renorm 2", f32(4, 16), k=2, renorm=2)]

WRONG_950 = [bad(OP, "x.size(-1)", "too many experts", f16(2, 2049), k=2)]


def golden() -> Case:
    def call(x: torch.Tensor, finished: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch_npu.npu_moe_gating_top_k_softmax(x, finished, 2)

    return call, (f16(4, 16), DONE)


def golden_v2() -> Case:
    def call(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch_npu.npu_moe_gating_top_k_softmax_v2(x, k=2, renorm=1)

    return call, (f16(4, 16),)


GOLDEN = {"moe_gating_top_k_softmax": golden(), "moe_gating_top_k_softmax_v2": golden_v2()}


@st.composite
def calls(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    lead = draw(st.sampled_from([(2,), (1, 2), (0,)]))
    x = tensor(draw, (*lead, draw(SIZES)), *FLOATS)
    return (x,), {"k": draw(st.sampled_from([0, 1, 2, 8])), "finished": optional(draw, lead, torch.bool)}


@st.composite
def calls_v2(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    args, options = draw(calls())
    return args, {**options, "renorm": draw(st.sampled_from([0, 1, 2, None])), "output_softmax": draw(st.booleans())}


CALLS = {f"npu_{OP}": calls(), f"npu_{V2}": calls_v2()}


@st.composite
def right_calls(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    experts = draw(st.integers(1, 20))
    lead = draw(st.sampled_from([(0,), (1,), (5,), (2, 3)]))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    x = torch.randn(*lead, experts, generator=generator) * 3
    finished = torch.rand(lead, generator=generator) < 0.5 if draw(st.booleans()) else None
    return (x,), {"k": draw(st.integers(1, experts)), "finished": finished}


@st.composite
def right_calls_v2(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    args, options = draw(right_calls())
    return args, {**options, "renorm": draw(st.sampled_from([0, 1])), "output_softmax": draw(st.booleans())}


def _softmax(values: Any) -> Any:
    powers = np.exp(values - values.max(-1, keepdims=True, initial=-np.inf))
    return powers / powers.sum(-1, keepdims=True)


def _chosen(values: Any, k: int, finished: torch.Tensor | None) -> tuple[Any, Any]:
    order = np.argsort(-values, axis=-1, kind="stable")[..., :k]
    index = order if finished is None else np.where(finished.numpy()[..., None], values.shape[-1], order)
    return order, index.astype(np.int32)


def statement(x: torch.Tensor, k: int, finished: torch.Tensor | None) -> tuple[Any, ...]:
    scores = _softmax(floats(x).astype(np.float64))
    order, index = _chosen(scores, k, finished)
    rows = int(np.prod(x.shape[:-1]))
    row_idx = np.asarray([[choice * rows + row for choice in range(k)] for row in range(rows)], np.int32)
    return np.take_along_axis(scores, order, -1).astype(np.float32), index, row_idx.reshape(index.shape)


def statement_v2(x: torch.Tensor, k: int, finished: Any, renorm: int, output_softmax: bool) -> tuple[Any, ...]:
    logits = floats(x).astype(np.float64)
    scores = _softmax(logits)
    order, index = _chosen(logits if renorm else scores, k, finished)
    y = _softmax(np.take_along_axis(logits, order, -1)) if renorm else np.take_along_axis(scores, order, -1)
    result = scores if output_softmax and not renorm else np.zeros(0)
    return y.astype(np.float32), index, result.astype(np.float32)


# A few roundings of float32, and an exponential within two units in the last place.
STATEMENTS = {
    f"npu_{OP}": Statement(statement, right_calls(), bound=2.0**-21),
    f"npu_{V2}": Statement(statement_v2, right_calls_v2(), bound=2.0**-21),
}


def statement_950(x: torch.Tensor, k: int, finished: torch.Tensor | None) -> tuple[Any, ...]:
    """Experts in the order of their float32 scores, whatever these are rounded to."""
    y, index, rows = statement(x, k, finished)
    return torch.from_numpy(y).to(x.dtype), index, rows


@st.composite
def halves(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Many float16 scores that round to the same number, more experts than kernels of A2 and A3 round last."""
    x = (torch.arange(24) * 7 % 24).reshape(1, 24).mul(2.0**-9).half()
    return (x[:, : draw(st.integers(9, 23))],), {"k": 9, "finished": None}


STATEMENTS_950 = {f"npu_{OP}": Statement(statement_950, halves(), bound=2.0**-10)}
