"""Calls of npu_grouped_matmul whose groups are given by a list of numbers."""

from typing import Any

import torch
from hypothesis import strategies as st

from operators.matmul.grouped_data import HALVES, Call, Data
from operators.matmul.grouped_statement import expected
from support.call_strategies import Draw
from support.call_table import Statement, bad, good, packed
from support.tensors import bf16, f16, f32, i8, i32, small32

OP = "grouped_matmul.List"
X, W = [f16(6, 16)], [f16(16, 8), f16(16, 8)]
ONE, SEVERAL = {"group_list": [2, 6], "split_item": 3}, {"group_list": [2, 6], "split_item": 1}
I8 = [i8(6, 16)]
W8 = [i8(16, 8), i8(16, 8)]
RESTORED = {"antiquant_scale": [f16(8)] * 2, "antiquant_offset": [f16(8)] * 2}

GOOD = [
    good(OP, "one result", X, W, bias=[f16(8), f16(8)], **ONE),
    good(OP, "several results", [bf16(6, 16)], [bf16(16, 8), bf16(16, 4)], bias=[f32(8), f32(4)], **SEVERAL),
    good(OP, "an empty group", X, W, group_list=[0, 6], split_item=1),
    good(OP, "several x, one result", [f16(2, 16), f16(4, 4)], [f16(16, 8), f16(4, 8)], **ONE),
    good(OP, "pairs", [f16(2, 3, 16), f16(4, 1, 4)], [f16(16, 8), f16(4, 2)]),
    good(OP, "int8", I8, W8, bias=[small32(8), small32(8)], scale=[packed(8), packed(8)], **ONE),
    good(OP, "a16w8", X, W8, **RESTORED, **SEVERAL),
]


def wrong(argument: str, label: str, *args: Any, **kwargs: Any) -> Any:
    return bad(OP, argument, label, *args, **kwargs)


WRONG = [
    wrong("group_type", "group_type", X, W, group_type=0, **ONE),
    wrong("group_list_type", "counts", X, W, group_list_type=1, **ONE),
    wrong("act_type", "activation", X, W, act_type=1, **ONE),
    wrong("x and weight", "no x", [], W, **ONE),
    wrong("weight[0]", "float32", [f32(6, 16)], [f32(16, 8)] * 2, **ONE),
    wrong("weight[0]", "int4", X, [i32(16, 1)] * 2, **RESTORED, **ONE),
    wrong("split_item", "split_item 4", X, W, group_list=[2, 6], split_item=4),
    wrong("weight", "one weight for one result", X, [f16(16, 8)], group_list=[6], split_item=3),
    wrong("x", "a pair short", X, W),
    wrong("group_list", "129 ends", X, [f16(16, 8)] * 128, group_list=list(range(129)), split_item=3),
    wrong("group_list", "an end too few", X, W, group_list=[6], split_item=3),
    wrong("x", "cut twice", [f16(2, 16), f16(4, 16)], W, **SEVERAL),
    wrong("output_dtype", "int8 to int32", I8, W8, scale=[packed(8), packed(8)], output_dtype=torch.int32, **ONE),
    wrong("weight[0]", "pairs transposed", [f16(2, 16)], [f16(8, 16).t()]),
    wrong("group_list[1]", "ends that fall", X, W, group_list=[7, 6], split_item=3),
    wrong("the last value of group_list", "rows left over", X, W, group_list=[2, 5], split_item=3),
    wrong("x[1].size(0)", "groups that are not the x", [f16(2, 16), f16(3, 16)], W, **ONE),
    wrong("per_token_scale", "tokens", X, W, per_token_scale=[f32(6)], **ONE),
    wrong("offset", "offset", X, W, offset=[f32(8)] * 2, **ONE),
]


@st.composite
def calls(draw: Draw) -> Call:
    data = Data(draw)
    rows, k, n = (draw(st.sampled_from(choices)) for choices in ([0, 1, 5, 9], [1, 2, 24], [1, 3, 8]))
    dtype, experts = data.one_of(*HALVES), data.one_of(2, 3)
    ends = [*sorted(int(end) for end in data.random.integers(0, rows + 1, experts - 1)), rows]
    options = {"group_list": ends, "split_item": data.one_of(0, 1, 2, 3)}
    if data.one_of(True, False):
        weights = [data.int8(k, n) for _ in ends]
        return ([data.int8(rows, k)], weights), {**options, "scale": [data.params(n) for _ in ends]}
    x, weights = data.eighths(dtype, rows, k), [data.eighths(dtype, k, n) for _ in ends]
    cut = options["split_item"] in (2, 3) and data.one_of(True, False)
    bounds = zip([0, *ends], ends, strict=False)
    return ([x[start:end] for start, end in bounds] if cut else [x], weights), options


STATEMENTS = {"npu_grouped_matmul.List": Statement(expected, calls())}
