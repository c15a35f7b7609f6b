"""Calls of npu_moe_gating_top_k."""

from typing import Any

import numpy as np
import torch
import torch_npu
from hypothesis import strategies as st

from support.call_strategies import FLOATS, SIZES, Draw, mostly, optional, tensor
from support.call_table import Case, Statement, bad, good
from support.numpy_rules import floats
from support.tensors import bf16, ends, f16, f32, f64

OP = "moe_gating_top_k"
GROUPS = {"k_group": 2, "group_count": 4}
SIGMOID = {"norm_type": 1}
TABLE = torch.arange(20, dtype=torch.int32).reshape(10, 2) % 16
GOOD = [
    good(OP, "softmax", f32(6, 16), 3),
    good(OP, "softmax, scores", f16(6, 16), 3, bias=f16(16), out_flag=True),
    good(OP, "softmax, normalised", bf16(6, 16), 3, renorm=1),
    good(
        OP,
        "sigmoid in groups",
        f32(6, 16),
        4,
        bias=f32(16),
        group_select_mode=1,
        routed_scaling_factor=2.5,
        **SIGMOID,
        **GROUPS,
    ),
    good(OP, "groups by their largest", bf16(6, 12), 4, **SIGMOID, **GROUPS),
    good(OP, "all groups", f32(6, 16), 4, bias=f32(16), k_group=4, group_count=4, **SIGMOID),
    good(OP, "a group an expert", f32(6, 16), 2, k_group=3, group_count=16),
    good(OP, "from a table", f32(3, 16), 2, input_ids=ends(0, 9, 4), tid2eid=TABLE, **SIGMOID),
    good(OP, "from a table, int64", f16(3, 16), 2, input_ids=ends(0, 9, 4).long(), tid2eid=TABLE.long()),
    good(OP, "one token, all experts", f32(1, 16), 16),
    good(OP, "no token", f32(0, 16), 3, **SIGMOID),
    good(OP, "equal experts", torch.zeros(2, 16), 5, group_select_mode=1, **GROUPS),
    good(OP, "transposed x", f32(16, 6).t(), 3),
]
WRONG = [
    bad(OP, "x", "x of three dimensions", f32(2, 6, 16), 3),
    bad(OP, "x", "x float64", f64(6, 16), 3),
    bad(OP, "x.size(1)", "too many experts", f32(2, 2049), 3),
    bad(OP, "bias", "bias of another dtype", f16(6, 16), 3, bias=f32(16)),
    bad(OP, "bias", "bias of two dimensions", f32(6, 16), 3, bias=f32(1, 16)),
    bad(OP, "bias.size(0)", "bias short", f32(6, 16), 3, bias=f32(8)),
    bad(OP, "group_select_mode", "select mode 2", f32(6, 16), 3, group_select_mode=2),
    bad(OP, "renorm", "renorm 2", f32(6, 16), 3, renorm=2),
    bad(OP, "norm_type", "norm_type of Ascend 950", f32(6, 16), 3, norm_type=2),
    bad(OP, "group_count", "no groups", f32(6, 16), 3, group_count=0),
    bad(OP, "k_group", "no group chosen", f32(6, 16), 3, k_group=0),
    bad(OP, "k_group", "more groups chosen than there are", f32(6, 16), 3, k_group=3, group_count=2),
    bad(OP, "x.size(1)", "experts that do not divide", f32(6, 16), 3, group_count=3),
    bad(
        OP,
        "the experts of a group",
        "one expert for a sum of two",
        f32(6, 16),
        3,
        group_count=16,
        k_group=8,
        group_select_mode=1,
    ),
    bad(OP, "k", "k zero", f32(6, 16), 0),
    bad(OP, "k", "more than the groups have", f32(6, 16), 9, **GROUPS),
    bad(OP, "group_count", "groups too large when rounded", f32(2, 1000), 3, k_group=2, group_count=100),
    bad(OP, "input_ids", "ids without a table", f32(3, 16), 2, input_ids=ends(0, 1, 2)),
    bad(OP, "input_ids", "ids float32", f32(3, 16), 2, input_ids=f32(3), tid2eid=TABLE),
    bad(OP, "input_ids", "ids of two dimensions", f32(3, 16), 2, input_ids=ends(0, 1, 2)[None], tid2eid=TABLE),
    bad(OP, "input_ids.size(0)", "an id short", f32(3, 16), 2, input_ids=ends(0, 1), tid2eid=TABLE),
    bad(OP, "tid2eid", "table float32", f32(3, 16), 2, input_ids=ends(0, 1, 2), tid2eid=TABLE.float()),
    bad(OP, "tid2eid", "table of one dimension", f32(3, 16), 2, input_ids=ends(0, 1, 2), tid2eid=TABLE[0]),
    bad(OP, "tid2eid.size(1)", "table narrow", f32(3, 16), 2, input_ids=ends(0, 1, 2), tid2eid=TABLE[:, :1]),
    bad(OP, "k", "table of too many", f32(1, 80), 65, input_ids=ends(0), tid2eid=torch.zeros(1, 65, dtype=torch.int32)),
    bad(OP, "k_group", "table and groups", f32(3, 16), 2, input_ids=ends(0, 1, 2), tid2eid=TABLE, **GROUPS),
]
GOOD_950 = [
    good(OP, "root of softplus", f32(6, 16), 3, norm_type=2),
    good(OP, "root of softplus in groups", bf16(6, 16), 3, bias=bf16(16), norm_type=2, out_flag=True, **GROUPS),
]
WRONG_VALUES = [
    bad(OP, "input_ids[1]", "no row of the table", f32(3, 16), 2, input_ids=ends(0, 10, 2), tid2eid=TABLE),
    bad(OP, "tid2eid[3][0]", "no expert", f32(1, 4), 2, input_ids=ends(3), tid2eid=TABLE),
]


def golden() -> Case:
    def call(x: torch.Tensor, bias: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch_npu.npu_moe_gating_top_k(
            x, 4, bias=bias, k_group=2, group_count=4, group_select_mode=1, norm_type=1, routed_scaling_factor=2.5
        )

    return call, (f32(6, 16), f32(16))


GOLDEN = {"moe_gating_top_k": golden()}


@st.composite
def calls(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    rows, width = draw(SIZES), draw(SIZES)
    x = tensor(draw, (rows, width), *FLOATS)
    k = draw(st.sampled_from([0, 1, 2, 4]))
    table = draw(st.booleans()) and draw(st.booleans())
    options = {
        "bias": optional(draw, (width,), x.dtype),
        "k_group": draw(st.sampled_from([1, 1, 2])),
        "group_count": draw(st.sampled_from([1, 1, 2, 4])),
        "group_select_mode": mostly(draw, draw(st.sampled_from([0, 1])), st.just(2)),
        "renorm": mostly(draw, draw(st.sampled_from([0, 1])), st.just(2)),
        "norm_type": mostly(draw, draw(st.sampled_from([0, 1])), st.just(2)),
        "input_ids": tensor(draw, (rows,), torch.int32, torch.int64) if table else None,
        "tid2eid": tensor(draw, (3, k), torch.int32, torch.int64) if mostly(draw, table, st.booleans()) else None,
    }
    return (x, k), options


CALLS = {"npu_moe_gating_top_k": calls()}


@st.composite
def right_calls(draw: Draw, norms: int = 2) -> tuple[tuple[Any, ...], dict[str, Any]]:
    groups, in_group = draw(st.sampled_from([1, 2, 4, 8])), draw(st.integers(2, 6))
    k_group = draw(st.integers(1, groups))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    x = torch.randn(draw(st.integers(0, 6)), groups * in_group, generator=generator) * 3
    options = {
        "bias": torch.randn(groups * in_group, generator=generator) if draw(st.booleans()) else None,
        "k_group": k_group,
        "group_count": groups,
        "group_select_mode": draw(st.sampled_from([0, 1])),
        "renorm": draw(st.sampled_from([0, 1])),
        "norm_type": draw(st.sampled_from(range(norms))),
        "out_flag": draw(st.booleans()),
        "routed_scaling_factor": draw(st.sampled_from([1.0, 2.5])),
        "eps": 1e-20,
    }
    return (x, draw(st.integers(1, k_group * in_group))), options


def statement(x: torch.Tensor, k: int, **options: Any) -> tuple[Any, ...]:
    """Token by token, in float64: no sum and no exponential has an order or a rounding to agree on."""
    logits = floats(x).astype(np.float64)
    if options["norm_type"] == 2:
        scores = np.sqrt(np.log1p(np.exp(logits)))
    elif options["norm_type"] == 1:
        scores = 1 / (1 + np.exp(-logits))
    else:
        powers = np.exp(logits - logits.max(-1, keepdims=True, initial=-np.inf))
        scores = powers / powers.sum(-1, keepdims=True)
    bias = options["bias"]
    preferred = scores if bias is None else scores + floats(bias)
    experts, groups = x.shape[1], options["group_count"]
    index = np.zeros((x.shape[0], k), np.int32)
    y = np.zeros((x.shape[0], k), np.float32)
    for token, row in enumerate(preferred):
        members = np.split(np.arange(experts), groups)
        best = 1 if options["group_select_mode"] == 0 else 2
        worth = [np.sort(row[member])[-best:].sum() for member in members]
        kept = sorted(range(groups), key=lambda group: -worth[group])[: options["k_group"]]
        allowed = [expert for group in sorted(kept) for expert in members[group]]
        index[token] = sorted(allowed, key=lambda expert: -row[expert])[:k]
        chosen = scores[token, index[token]]
        if options["norm_type"] or options["renorm"]:
            chosen = chosen / (chosen.sum() + options["eps"])
        y[token] = chosen * options["routed_scaling_factor"]
    return y, index, (scores if options["out_flag"] else np.zeros_like(scores)).astype(np.float32)


# A few roundings of float32, and an exponential within two units in the last place: 2**-21 of the largest weight.
STATEMENTS = {"npu_moe_gating_top_k": Statement(statement, right_calls(), bound=2.0**-21)}
# log(1 + exp(x)) loses what is below 2**-24, and its root half of the rest.
STATEMENTS_950 = {"npu_moe_gating_top_k": Statement(statement, right_calls(3), bound=2.0**-12)}
