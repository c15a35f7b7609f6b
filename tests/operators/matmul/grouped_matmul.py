"""Calls of npu_grouped_matmul whose groups are given by a tensor."""

from typing import Any

import torch
import torch_npu

from operators.matmul.grouped_data import calls
from operators.matmul.grouped_statement import expected
from support.call_table import Case, Statement, bad, good, packed
from support.tensors import bf16, ends, f16, f32, i8, i32, nz, small32, stored

I64 = torch.int64
HALF, BF16, INT32 = {"output_dtype": torch.float16}, {"output_dtype": torch.bfloat16}, {"output_dtype": torch.int32}
ROWS = {"split_item": 3, "group_type": 0}
COUNTS = {**ROWS, "group_list_type": 1}
THREE, SPARSE = ends(2, 0, 3, dtype=I64), torch.tensor([[2, 3], [0, 2], [1, 0]])
X, W = [i8(6, 32)], [i8(3, 32, 16)]
ENDS = {**ROWS, "group_list": ends(2, 2, 6, dtype=I64)}
COLUMNS = {"split_item": 3, "group_type": 2, "group_list": ends(6, 10, 16, dtype=I64)}
X4, W4 = [i8(6, 64)], [i32(3, 64, 2)]
A4 = {"bias": [f32(3, 16)], "scale": [packed(16, 3)[:, None]], "per_token_scale": [f32(6)], "group_list": THREE}
HALF_X, HALF_W = [f16(6, 16)], [f16(3, 16, 8)]


def op(label: str, *args: Any, **kwargs: Any) -> Any:
    return good("grouped_matmul", label, *args, **kwargs)


GOOD = [
    op(
        "pairs",
        [f16(4, 8), f16(2, 3, 16)[0], f16(5, 4)],
        [f16(8, 8), f16(16, 4), f16(4, 2)],
        bias=[f16(8), f16(4), f16(2)],
        group_type=-1,
    ),
    op(
        "pairs of three dimensions",
        [bf16(2, 3, 8), bf16(1, 2, 4)],
        [bf16(8, 8), bf16(4, 2)],
        group_type=-1,
        split_item=1,
    ),
    op("pairs float32", [f32(4, 8)], [f32(16, 8).t()], bias=[f32(16)], group_type=-1),
    op("rows", HALF_X, HALF_W, group_list=ends(2, 2, 5, dtype=I64), **ROWS),
    op(
        "rows bfloat16",
        [bf16(6, 16)],
        [bf16(3, 16, 8)],
        bias=[f32(3, 8)],
        group_list=ends(0, 6, 0, dtype=I64),
        **COUNTS,
    ),
    op("rows transposed", HALF_X, [f16(3, 8, 16).mT], bias=[f16(0)], group_list=THREE, **COUNTS),
    op(
        "rows separate weights",
        HALF_X,
        [f16(16, 8), f16(16, 8)],
        bias=[f16(8), f16(8)],
        group_list=ends(1, 6, dtype=I64),
        **ROWS,
    ),
    op("rows separate", [f16(2, 16), f16(3, 4)], [f16(16, 8), f16(4, 8)], group_list=ends(2, 5, dtype=I64), **ROWS),
    op("rows separate without list", [f16(2, 16), f16(3, 4)], [f16(16, 8), f16(4, 8)], split_item=2, group_type=0),
    op("columns", [f16(16, 5).t()], [f16(16, 8)], group_list=ends(4, 4, 9, dtype=I64), split_item=3, group_type=2),
    op("no rows", [f16(0, 16)], HALF_W, group_list=ends(0, 0, 0, dtype=I64), **ROWS),
    op("one row", [f16(1, 16)], HALF_W, group_list=ends(0, 1, 1, dtype=I64), **ROWS),
    op("int32", X, W, group_list=THREE, tuning_config=[0], **COUNTS, **INT32),
    op(
        "int32 sparse",
        X,
        W,
        bias=[small32(3, 16)],
        group_list=SPARSE,
        tuning_config=[0],
        **{**COUNTS, "group_list_type": 2},
        **INT32,
    ),
    op("int8", X, W, scale=[packed(16, 3)], group_list=THREE, **COUNTS),
    op(
        "int8 named",
        X,
        W,
        bias=[small32(3, 16)],
        scale=[packed(16, 3)],
        group_list=THREE,
        output_dtype=torch.int8,
        **COUNTS,
    ),
    op(
        "int8 separate weights",
        X,
        [i8(16, 32).t(), i8(16, 32).t()],
        scale=[packed(16), packed(16)],
        group_list=ends(1, 6, dtype=I64),
        **ROWS,
    ),
    op("bfloat16", X, W, scale=[bf16(3, 16)], group_list=THREE, **COUNTS, **BF16),
    op(
        "bfloat16 tokens",
        X,
        W,
        bias=[bf16(3, 16)],
        scale=[bf16(3, 16)],
        per_token_scale=[f32(6)],
        group_list=THREE,
        **COUNTS,
        **BF16,
    ),
    op(
        "bfloat16 sparse",
        X,
        W,
        scale=[bf16(3, 16)],
        per_token_scale=[f32(6)],
        group_list=SPARSE,
        **{**COUNTS, "group_list_type": 2},
        **BF16,
    ),
    op(
        "float16 tokens",
        X,
        W,
        bias=[small32(3, 16)],
        scale=[f32(3, 16)],
        per_token_scale=[f32(6)],
        group_list=THREE,
        **COUNTS,
        **HALF,
    ),
    *[
        op(f"activation {act}", X, W, scale=[f32(3, 16) / 999], group_list=THREE, act_type=act, **COUNTS, **HALF)
        for act in (1, 2, 4, 5)
    ],
    op("a8w4", X4, W4, **A4, **COUNTS, **BF16),
    op("a8w4, uint64 scale", X4, W4, **{**A4, "scale": [A4["scale"][0].view(torch.uint64)]}, **COUNTS, **HALF),
    op("a8w4 in two groups", X4, W4, **{**A4, "scale": [packed(16, 6).view(3, 2, 16)]}, **COUNTS, **HALF),
    op("a8w4 many rows", X4, W4, **A4, tuning_config=[6], **COUNTS, **BF16),
    op("a8w4 offset", X4, W4, **{**A4, "per_token_scale": [f32(6, 1)]}, offset=[f32(3, 1, 16)], **COUNTS, **HALF),
    op(
        "a4w4",
        [i32(6, 2)],
        [i32(3, 16, 2)],
        scale=[packed(16, 3)],
        per_token_scale=[f32(6)],
        group_list=THREE,
        **COUNTS,
        **HALF,
    ),
    op(
        "a4w4, uint64 scale",
        [i32(6, 2)],
        [i32(3, 16, 2)],
        scale=[packed(16, 3).view(torch.uint64)],
        group_list=THREE,
        **COUNTS,
        **HALF,
    ),
    op(
        "a4w4 in two groups",
        [i32(6, 2)],
        [i32(3, 16, 2)],
        scale=[packed(16, 6).view(3, 2, 16)],
        group_list=THREE,
        **COUNTS,
        **BF16,
    ),
    op(
        "a16w8",
        HALF_X,
        [i8(3, 16, 8)],
        bias=[f16(3, 8)],
        antiquant_scale=[f16(3, 8)],
        antiquant_offset=[f16(3, 8)],
        group_list=THREE,
        **COUNTS,
    ),
    op(
        "a16w8 pairs", [bf16(2, 3, 8)], [i8(8, 4)], antiquant_scale=[bf16(4)], antiquant_offset=[bf16(4)], group_type=-1
    ),
    op(
        "a16w4",
        [bf16(6, 16)],
        [i32(3, 16, 2)],
        antiquant_scale=[bf16(3, 4, 16)],
        antiquant_offset=[bf16(3, 4, 16)],
        group_list=THREE,
        **COUNTS,
        **BF16,
    ),
    op("a16w4 packed along k", HALF_X, [i32(3, 8, 2).mT], antiquant_scale=[f16(3, 8)], group_list=THREE, **COUNTS),
    op(
        "a16w4 separate",
        HALF_X,
        [i32(16, 1), i32(16, 1)],
        antiquant_scale=[f16(2, 8), f16(2, 8)],
        antiquant_offset=[f16(2, 8), f16(2, 8)],
        group_list=ends(3, 6, dtype=I64),
        **ROWS,
    ),
]


def transposed(weight: torch.Tensor) -> torch.Tensor:
    return weight.mT.contiguous().mT


def wrong(argument: str, label: str, *args: Any, **kwargs: Any) -> Any:
    return bad("grouped_matmul", argument, label, *args, **kwargs)


INT8_CALL = {"scale": [packed(16, 3)], "group_list": THREE, **COUNTS}
TOKENS = {"scale": [f32(3, 16)], "per_token_scale": [f32(6)], "group_list": THREE, **COUNTS, **HALF}
HALVED = {"group_list": THREE, **COUNTS}
RESTORED = {"antiquant_scale": [f16(3, 8)], "antiquant_offset": [f16(3, 8)], **HALVED}
W16 = [i8(3, 16, 8)]
PAIR = {"group_type": -1}
COLUMNS_CUT = {"group_type": 2, "split_item": 3, "group_list": ends(2, 8, dtype=I64)}
WRONG = [
    wrong("group_type", "no group_type", HALF_X, HALF_W, split_item=3, group_list=THREE),
    wrong("group type", "group_type 1", HALF_X, HALF_W, split_item=3, group_list=THREE, group_type=1),
    wrong("x_dtype", "of Ascend 950", HALF_X, HALF_W, x_dtype=24, **HALVED),
    wrong("weight_dtype", "of Ascend 950", HALF_X, HALF_W, weight_dtype=24, **HALVED),
    wrong("scale_dtype", "of Ascend 950", HALF_X, HALF_W, scale_dtype=24, **HALVED),
    wrong("per_token_scale_dtype", "of Ascend 950", HALF_X, HALF_W, per_token_scale_dtype=24, **HALVED),
    wrong("x", "no weights", HALF_X, [], **HALVED),
    wrong("x", "129 pairs", [f16(1, 1)] * 129, [f16(1, 1)] * 129, **PAIR),
    wrong("x[1]", "x of two dtypes", [f16(2, 8), bf16(2, 8)], [f16(8, 4)] * 2, **PAIR),
    wrong("weight[1]", "weights of two dtypes", [f16(2, 8)] * 2, [f16(8, 4), bf16(8, 4)], **PAIR),
    wrong("x and weight", "half and float32", HALF_X, [f32(3, 16, 8)], **HALVED),
    wrong("split_item", "several results of rows", HALF_X, HALF_W, group_list=THREE, group_type=0, group_list_type=1),
    wrong("split_item", "one result of pairs", [f16(2, 8)], [f16(8, 4)], split_item=2, **PAIR),
    wrong("weight[0]", "weight of two dimensions", HALF_X, [f16(16, 8)], **HALVED),
    wrong("weight[0]", "pairs with a weight of three", HALF_X, HALF_W, **PAIR),
    wrong("x", "one weight for two x", [f16(2, 16), f16(3, 16)], HALF_W, **HALVED),
    wrong("x", "a pair short", [f16(2, 8)], [f16(8, 4)] * 2, **PAIR),
    wrong("x[0]", "x of seven dimensions", [f16(1, 1, 1, 1, 1, 2, 8)], [f16(8, 4)], **PAIR),
    wrong("x[0]", "rows of three dimensions", [f16(1, 6, 16)], HALF_W, **HALVED),
    wrong("x[1]", "x of two ranks", [f16(2, 8), f16(1, 2, 8)], [f16(8, 4)] * 2, **PAIR),
    wrong("x[0]", "x transposed", [f16(16, 6).t()], HALF_W, **HALVED),
    wrong("weight[1]", "weights of two orders", [f16(2, 8)] * 2, [f16(8, 4), f16(4, 8).t()], **PAIR),
    wrong("weight[0]", "columns, both transposed", [f16(8, 4).t()], [f16(5, 8).t()], **COLUMNS_CUT),
    wrong("x[0]", "columns of x as it is", [f16(5, 16)], [f16(16, 8)], group_list=THREE, split_item=3, group_type=2),
    wrong("k", "no depth", [f16(6, 0)], [f16(3, 0, 8)], **HALVED),
    wrong("k", "too deep", [f16(1, 65536)], [f16(65536, 1)], **PAIR),
    wrong("n", "too wide", [f16(1, 1)], [f16(1, 65536)], **PAIR),
    wrong("weight[0].size(-2)", "other depth", HALF_X, [f16(3, 8, 8)], **HALVED),
    wrong(
        "n of weight[1]",
        "weights of two widths",
        HALF_X,
        [f16(16, 8), f16(16, 4)],
        group_list=ends(1, 6, dtype=I64),
        **ROWS,
    ),
    wrong("weight[0]", "a8w4 transposed", X4, [transposed(W4[0])], **A4, **COUNTS, **HALF),
    wrong(
        "weight[0]",
        "a16w4 transposed, not along k",
        HALF_X,
        [transposed(i32(3, 16, 2))],
        antiquant_scale=[f16(3, 16)],
        **HALVED,
    ),
    wrong("weight[0].size(-2)", "a16w4 along k, not transposed", HALF_X, [i32(3, 2, 8)], **RESTORED),
    wrong("weight[0].size(-2)", "a16w4 along k, with gaps", HALF_X, [i32(6, 8, 2)[::2].mT], **RESTORED),
    wrong("output_dtype", "another half", HALF_X, HALF_W, **HALVED, **BF16),
    wrong("output_dtype", "int8 to float32", X, W, **INT8_CALL, output_dtype=torch.float32),
    wrong("output_dtype", "a8w4 without", X4, W4, **A4, **COUNTS),
    wrong("group_list_type", "unknown", HALF_X, HALF_W, group_list=THREE, **{**ROWS, "group_list_type": 3}),
    wrong("group_list_type", "sparse halves", HALF_X, HALF_W, group_list=SPARSE, **{**ROWS, "group_list_type": 2}),
    wrong("group_list_type", "a8w4 by ends", X4, W4, **{**A4, "group_list": ends(1, 2, 6, dtype=I64)}, **ROWS, **BF16),
    wrong(
        "group_type",
        "columns of int8",
        [i8(16, 5).t()],
        [i8(16, 8)],
        group_list=THREE,
        split_item=3,
        group_type=2,
        output_dtype=torch.int32,
    ),
    wrong("group_type", "a4w4 pairs", [i32(6, 2)], [i32(16, 2)], scale=[packed(16)], **PAIR, **HALF),
    wrong("group_list", "groups of pairs", [f16(2, 8)], [f16(8, 4)], group_list=ends(2, dtype=I64), **PAIR),
    wrong("group_list", "no groups", HALF_X, HALF_W, **COUNTS),
    wrong("group_list", "groups int32", HALF_X, HALF_W, group_list=THREE.int(), **COUNTS),
    wrong("group_list", "groups of two dimensions", HALF_X, HALF_W, group_list=SPARSE, **COUNTS),
    wrong(
        "group_list.size(1)",
        "sparse of three columns",
        X,
        W,
        group_list=SPARSE.t().repeat(2, 1)[:3].contiguous()[:, :3],
        **{**COUNTS, "group_list_type": 2},
        **INT32,
    ),
    wrong(
        "group_list.size(0)",
        "empty groups",
        [f16(16, 5).t()],
        [f16(16, 8)],
        group_list=ends(dtype=I64),
        split_item=3,
        group_type=2,
    ),
    wrong(
        "group_list.size(0)",
        "1025 groups",
        [f16(16, 5).t()],
        [f16(16, 8)],
        group_list=torch.zeros(1025, dtype=I64),
        split_item=3,
        group_type=2,
    ),
    wrong("group_list.size(0)", "a group short", HALF_X, HALF_W, group_list=ends(2, 3, dtype=I64), **COUNTS),
    wrong("act_type", "unknown", X, W, act_type=3, **TOKENS),
    wrong("act_type", "activated halves", HALF_X, HALF_W, act_type=1, **HALVED),
    wrong("activation_input", "activation_input", HALF_X, HALF_W, activation_input=[f16(6, 8)], **HALVED),
    wrong(
        "activation_quant_scale", "activation_quant_scale", HALF_X, HALF_W, activation_quant_scale=[f16(1)], **HALVED
    ),
    wrong(
        "activation_quant_offset", "activation_quant_offset", HALF_X, HALF_W, activation_quant_offset=[f16(1)], **HALVED
    ),
    wrong("per_token_scale", "tokens of halves", HALF_X, HALF_W, per_token_scale=[f32(6)], **HALVED),
    wrong("per_token_scale", "tokens for int8", X, W, per_token_scale=[f32(6)], **INT8_CALL),
    wrong("per_token_scale", "two lists of tokens", X, W, **{**TOKENS, "per_token_scale": [f32(6), f32(6)]}),
    wrong("per_token_scale[0]", "tokens float16", X, W, **{**TOKENS, "per_token_scale": [f16(6)]}),
    wrong("per_token_scale[0]", "tokens of two dimensions", X, W, **{**TOKENS, "per_token_scale": [f32(6, 1)]}),
    wrong("per_token_scale[0].size(0)", "a token short", X, W, **{**TOKENS, "per_token_scale": [f32(5)]}),
    wrong("per_token_scale", "a8w4 without tokens", X4, W4, **{**A4, "per_token_scale": None}, **COUNTS, **BF16),
    wrong("per_token_scale[0]", "offset with a row of tokens", X4, W4, **A4, offset=[f32(3, 1, 16)], **COUNTS, **HALF),
    wrong("scale", "int8 without scale", X, W, group_list=THREE, **COUNTS),
    wrong("scale", "scale of int32 results", X, W, **INT8_CALL, **INT32),
    wrong("scale", "scale of halves", HALF_X, HALF_W, scale=[f32(3, 8)], **HALVED),
    wrong("scale", "two scales", X, W, **{**INT8_CALL, "scale": [packed(16, 3)] * 2}),
    wrong("scale[0]", "float32 scale of bfloat16", X, W, **{**TOKENS, **BF16}),
    wrong("scale[0]", "float32 scale of int8", X, W, **{**INT8_CALL, "scale": [f32(3, 16)]}),
    wrong("scale[0]", "scale of one dimension", X, W, **{**INT8_CALL, "scale": [packed(16)]}),
    wrong("scale[0].size(0)", "scale of two experts", X, W, **{**INT8_CALL, "scale": [packed(16, 2)]}),
    wrong("scale[0].size(1)", "scale too narrow", X, W, **{**INT8_CALL, "scale": [packed(8, 3)]}),
    wrong(
        "scale[0].size(1)",
        "a8w4 without a group",
        X4,
        W4,
        **{**A4, "scale": [packed(16, 0).view(3, 0, 16)]},
        **COUNTS,
        **HALF,
    ),
    wrong(
        "scale[0].size(2)",
        "a8w4 scale too narrow",
        X4,
        W4,
        **{**A4, "scale": [packed(8, 3).view(3, 1, 8)]},
        **COUNTS,
        **BF16,
    ),
    wrong("scale[0]", "a8w4 scale of two dimensions", X4, W4, **{**A4, "scale": [packed(16, 3)]}, **COUNTS, **BF16),
    wrong(
        "scale[0].size(1)",
        "groups that do not divide k",
        X4,
        W4,
        **{**A4, "scale": [packed(16, 9).view(3, 3, 16)]},
        **COUNTS,
        **BF16,
    ),
    wrong("k", "a8w4 of 32", [i8(6, 32)], [i32(3, 32, 2)], **A4, **COUNTS, **BF16),
    wrong(
        "k",
        "a8w4 too deep",
        [i8(1, 18496)],
        [i32(1, 18496, 1)],
        bias=[f32(1, 8)],
        scale=[packed(8, 1)[:, None]],
        per_token_scale=[f32(1)],
        group_list=ends(1, dtype=I64),
        **COUNTS,
        **BF16,
    ),
    wrong(
        "k / scale[0].size(1)",
        "odd groups",
        [i32(6, 1)],
        [i32(3, 8, 2)],
        scale=[packed(16, 24).view(3, 8, 16)],
        group_list=THREE,
        **COUNTS,
        **HALF,
    ),
    wrong("offset", "offset of int8", X, W, offset=[f32(3, 16)], **INT8_CALL),
    wrong(
        "offset",
        "offset of bfloat16",
        X4,
        W4,
        **{**A4, "per_token_scale": [f32(6, 1)]},
        offset=[f32(3, 1, 16)],
        **COUNTS,
        **BF16,
    ),
    wrong(
        "offset[0]",
        "offset float16",
        X4,
        W4,
        **{**A4, "per_token_scale": [f32(6, 1)]},
        offset=[f16(3, 1, 16)],
        **COUNTS,
        **HALF,
    ),
    wrong(
        "offset[0].size(2)",
        "offset too narrow",
        X4,
        W4,
        **{**A4, "per_token_scale": [f32(6, 1)]},
        offset=[f32(3, 1, 8)],
        **COUNTS,
        **HALF,
    ),
    wrong("antiquant_scale", "restored without scale", HALF_X, W16, **HALVED),
    wrong("antiquant_scale", "antiquant of halves", HALF_X, HALF_W, **RESTORED),
    wrong("antiquant_offset", "int8 without offset", HALF_X, W16, **{**RESTORED, "antiquant_offset": None}),
    wrong("antiquant_scale[0]", "antiquant float32", HALF_X, W16, **{**RESTORED, "antiquant_scale": [f32(3, 8)]}),
    wrong(
        "antiquant_scale[0].size(1)",
        "antiquant too narrow",
        HALF_X,
        W16,
        **{**RESTORED, "antiquant_scale": [f16(3, 4)]},
    ),
    wrong("antiquant_scale[0]", "int8 in groups", HALF_X, W16, **{**RESTORED, "antiquant_scale": [f16(3, 2, 8)]}),
    wrong(
        "antiquant_offset[0]",
        "offset of another rank",
        HALF_X,
        [i32(3, 16, 1)],
        **{**RESTORED, "antiquant_scale": [f16(3, 2, 8)]},
    ),
    wrong(
        "antiquant_offset[0].size(-2)",
        "offset of other groups",
        HALF_X,
        [i32(3, 16, 1)],
        **{**RESTORED, "antiquant_scale": [f16(3, 2, 8)], "antiquant_offset": [f16(3, 4, 8)]},
    ),
    wrong(
        "antiquant_scale[0].size(-2)",
        "antiquant that does not divide k",
        HALF_X,
        [i32(3, 16, 1)],
        antiquant_scale=[f16(3, 3, 8)],
        **HALVED,
    ),
    wrong(
        "k / antiquant_scale[1].size(-2)",
        "groups of two lengths",
        [f16(2, 16), f16(2, 16)],
        [i32(16, 1)] * 2,
        antiquant_scale=[f16(2, 8), f16(4, 8)],
        antiquant_offset=[f16(2, 8), f16(4, 8)],
        **PAIR,
    ),
    wrong(
        "k / antiquant_scale[0].size(-2)",
        "odd groups along k",
        HALF_X,
        [i32(3, 8, 2).mT],
        antiquant_scale=[f16(3, 16, 8)],
        **HALVED,
    ),
    wrong("bias", "a8w4 without bias", X4, W4, **{**A4, "bias": None}, **COUNTS, **BF16),
    wrong(
        "bias",
        "bias of a4w4",
        [i32(6, 2)],
        [i32(3, 16, 2)],
        bias=[f32(3, 16)],
        scale=[packed(16, 3)],
        group_list=THREE,
        **COUNTS,
        **HALF,
    ),
    wrong("bias", "two biases", HALF_X, HALF_W, bias=[f16(3, 8)] * 2, **HALVED),
    wrong("bias[0]", "bias float32 of float16", HALF_X, HALF_W, bias=[f32(3, 8)], **HALVED),
    wrong(
        "bias[0]",
        "bfloat16 bias without tokens",
        X,
        W,
        bias=[bf16(3, 16)],
        scale=[bf16(3, 16)],
        group_list=THREE,
        **COUNTS,
        **BF16,
    ),
    wrong("bias[0]", "bias of one dimension", HALF_X, HALF_W, bias=[f16(8)], **HALVED),
    wrong("bias[0].size(1)", "bias too narrow", HALF_X, HALF_W, bias=[f16(3, 4)], **HALVED),
    wrong(
        "bias",
        "bias of columns",
        [f16(16, 5).t()],
        [f16(16, 8)],
        bias=[f16(8)],
        group_list=THREE,
        split_item=3,
        group_type=2,
    ),
    wrong("tuning_config[0]", "negative tuning", X, W, tuning_config=[-1], **INT8_CALL),
    wrong("tuning_config[0]", "tuning above the rows", X, W, tuning_config=[7], **INT8_CALL),
    wrong(
        "tuning_config[0]", "tuning above all rows", [f16(2, 8), f16(3, 8)], [f16(8, 4)] * 2, tuning_config=[4], **PAIR
    ),
]
SPARSELY = {**COUNTS, "group_list_type": 2, **INT32}
WRONG_FORMATS = [
    bad("grouped_matmul", "weight[0]", "weight in NC1HWC0", [f16(6, 16)], [stored(f16(3, 16, 16), 3)], **ENDS),
    bad("grouped_matmul", "k of weight[0]", "broken blocks of rows", [f16(6, 24)], [nz(f16(3, 24, 16))], **ENDS),
    bad("grouped_matmul", "n of weight[0]", "broken blocks of columns", [bf16(6, 16)], [nz(bf16(3, 16, 8))], **ENDS),
    bad("grouped_matmul", "n of weight[0]", "broken blocks of int8", X, [nz(W[0])], **ENDS, **INT32),
    bad(
        "grouped_matmul",
        "k of weight[0]",
        "broken blocks in a view",
        [i8(6, 16)],
        [nz(i8(3, 32, 16).mT)],
        **ENDS,
        **INT32,
    ),
    bad("grouped_matmul", "weight", "columns in FRACTAL_NZ", [f16(16, 6).t()], [nz(f16(16, 16))], **COLUMNS),
]
WRONG_VALUES = [
    wrong("group_list", "more rows than x", HALF_X, HALF_W, group_list=ends(2, 2, 3, dtype=I64), **COUNTS),
    wrong("group_list[1]", "a negative count", HALF_X, HALF_W, group_list=ends(2, -1, 3, dtype=I64), **COUNTS),
    wrong("group_list[2]", "ends that fall", HALF_X, HALF_W, group_list=ends(2, 5, 3, dtype=I64), **ROWS),
    wrong("group_list[0]", "a negative end", HALF_X, HALF_W, group_list=ends(-1, 5, 6, dtype=I64), **ROWS),
    wrong(
        "group_list[0][0]", "an expert that is not", X, W, group_list=torch.tensor([[3, 2], [0, 2], [1, 0]]), **SPARSELY
    ),
    wrong(
        "group_list[1][1]",
        "a negative sparse count",
        X,
        W,
        group_list=torch.tensor([[1, 2], [0, -2], [1, 0]]),
        **SPARSELY,
    ),
    wrong(
        "group 1",
        "groups that are not the x",
        [f16(2, 16), f16(3, 4)],
        [f16(16, 8), f16(4, 8)],
        group_list=ends(2, 4, dtype=I64),
        **ROWS,
    ),
]


def golden(x: torch.Tensor, w: torch.Tensor, **options: Any) -> Case:
    def call(x: torch.Tensor, w: torch.Tensor, lists: dict[str, list[torch.Tensor]]) -> Any:
        return torch_npu.npu_grouped_matmul([x], [w], **lists, **options)

    lists = {name: options.pop(name) for name in list(options) if isinstance(options[name], (list, torch.Tensor))}
    return call, (x, w, lists)


GOLDEN: dict[str, Case] = {
    "grouped_matmul-int32": golden(X[0], W[0], group_list=THREE, **COUNTS, **INT32),
    "grouped_matmul-bfloat16": golden(
        X[0], W[0], scale=[bf16(3, 16)], per_token_scale=[f32(6)], group_list=THREE, **COUNTS, **BF16
    ),
    "grouped_matmul-half": golden(HALF_X[0], HALF_W[0], bias=[f16(3, 8)], group_list=THREE, **COUNTS),
    "grouped_matmul-a8w4": golden(X4[0], W4[0], **A4, **COUNTS, **BF16),
    "grouped_matmul-a16w4": golden(HALF_X[0], i32(3, 16, 1), antiquant_scale=[f16(3, 8)], group_list=THREE, **COUNTS),
}
STATEMENTS = {"npu_grouped_matmul": Statement(expected, calls())}
