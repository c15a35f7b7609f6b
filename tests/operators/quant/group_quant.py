"""Calls of npu_group_quant."""

from typing import Any

import torch
import torch_npu
from hypothesis import strategies as st

from support.call_strategies import DESTINATIONS, FLOATS, SIZES, Draw, group_ends, optional, tensor
from support.call_table import INT4, Case, bad, good
from support.tensors import bf16, ends, f16, f32, f64, i32

GROUPS = ends(1, 4, 4, 6)
GOOD = [
    good("group_quant", "default", f16(6, 16), f32(4, 16), GROUPS),
    good("group_quant", "int8", f32(6, 5), bf16(4, 5), GROUPS.long(), dst_dtype=torch.int8),
    good("group_quant", "qint8 offset", bf16(6, 16), f16(4, 16), GROUPS, offset=f16(1), dst_dtype=torch.qint8),
    good("group_quant", "quint4x2", f16(6, 16), f32(4, 16), GROUPS, offset=f32(1), dst_dtype=INT4),
    good("group_quant", "offset of no dimension", f16(6, 16), f32(4, 16), GROUPS, offset=f32(), dst_dtype=INT4),
    good("group_quant", "no rows", f16(0, 16), f32(2, 16), ends(0, 0), dst_dtype=INT4),
    good("group_quant", "no columns", f16(3, 0), f32(2, 0), ends(0, 3)),
    good("group_quant", "transposed x", f16(16, 6).t(), f32(4, 16), GROUPS),
]
WRONG = [
    bad("group_quant", "x", "x of three dimensions", f16(1, 6, 16), f32(4, 16), GROUPS),
    bad("group_quant", "x", "x float64", f64(6, 16), f32(4, 16), GROUPS),
    bad("group_quant", "scale", "scale of one dimension", f16(6, 16), f32(16), GROUPS),
    bad("group_quant", "scale", "scale int32", f16(6, 16), i32(4, 16), GROUPS),
    bad("group_quant", "scale.size(0)", "no groups", f16(0, 16), f32(0, 16), ends()),
    bad("group_quant", "scale.size(1)", "scale too narrow", f16(6, 16), f32(4, 8), GROUPS),
    bad("group_quant", "group_index", "group_index of two dimensions", f16(6, 16), f32(4, 16), GROUPS[None]),
    bad("group_quant", "group_index", "group_index float32", f16(6, 16), f32(4, 16), GROUPS.float()),
    bad("group_quant", "group_index.size(0)", "an end too few", f16(6, 16), f32(4, 16), ends(1, 4, 6)),
    bad("group_quant", "offset", "offset of two dimensions", f16(6, 16), f32(4, 16), GROUPS, offset=f32(1, 1)),
    bad("group_quant", "offset", "two offsets", f16(6, 16), f32(4, 16), GROUPS, offset=f32(2)),
    bad("group_quant", "offset", "offset of another dtype", f16(6, 16), f32(4, 16), GROUPS, offset=f16(1)),
    bad("group_quant", "dst_dtype", "quint8", f16(6, 16), f32(4, 16), GROUPS, dst_dtype=torch.quint8),
    bad("group_quant", "dst_dtype", "int32", f16(6, 16), f32(4, 16), GROUPS, dst_dtype=torch.int32),
    bad("group_quant", "x.size(1)", "width not of eights", f16(6, 12), f32(4, 12), GROUPS, dst_dtype=INT4),
]
WRONG_VALUES = [
    bad("group_quant", "group_index[0]", "negative", f16(6, 16), f32(2, 16), ends(-1, 6)),
    bad("group_quant", "group_index[1]", "above the rows", f16(6, 16), f32(2, 16), ends(1, 7)),
    bad("group_quant", "group_index[1]", "decreasing", f16(6, 16), f32(3, 16), ends(4, 2, 6)),
    bad("group_quant", "group_index", "last not the rows", f16(6, 16), f32(2, 16), ends(1, 5)),
]


def golden(kind: torch.dtype) -> Case:
    def call(x: torch.Tensor, scale: torch.Tensor, group_index: torch.Tensor, offset: torch.Tensor) -> torch.Tensor:
        return torch_npu.npu_group_quant(x, scale, group_index, offset=offset, dst_dtype=kind)

    return call, (f16(6, 16), f32(4, 16), ends(1, 4, 4, 6), f32(1))


GOLDEN = {"group_quant-int8": golden(torch.int8), "group_quant-int4": golden(INT4)}


@st.composite
def calls(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    rows, width, groups = draw(SIZES), draw(SIZES), draw(st.sampled_from([1, 2, 3]))
    scale = tensor(draw, (groups, width), *FLOATS)
    args = tensor(draw, (rows, width), *FLOATS), scale, group_ends(draw, groups, rows, torch.int32, torch.int64)
    return args, {"offset": optional(draw, (1,), scale.dtype), "dst_dtype": draw(DESTINATIONS)}


CALLS = {"npu_group_quant": calls()}
