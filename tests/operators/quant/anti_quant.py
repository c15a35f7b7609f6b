"""Calls of npu_anti_quant."""

from typing import Any

import numpy as np
import torch
import torch_npu
from hypothesis import strategies as st

from support.call_strategies import SIZES, Draw, mostly, optional, tensor
from support.call_table import INT4, Case, Statement, bad, good
from support.numpy_rules import floats
from support.tensors import bf16, f16, f32, i8, i32, u8

GOOD = [
    good("anti_quant", "one scale", i8(3, 5), f32(1)),
    good("anti_quant", "a scale a column", i8(2, 3, 16), f32(16), offset=f32(16)),
    good("anti_quant", "float16 spelled out", i8(3, 5), f32(5), dst_dtype=torch.float16, src_dtype=torch.int8),
    good("anti_quant", "bfloat16", i8(3, 5), bf16(5), offset=bf16(5), dst_dtype=torch.bfloat16),
    good("anti_quant", "float16 of bfloat16 scales", i8(3, 5), bf16(1), offset=bf16(1)),
    good("anti_quant", "int4", i32(3, 2), f32(16), offset=f32(16)),
    good("anti_quant", "int4 spelled out", i32(2, 3, 2), f32(1), dst_dtype=torch.bfloat16, src_dtype=INT4),
    good("anti_quant", "one dimension", i8(7), f32(7)),
    good("anti_quant", "eight dimensions", i8(1, 1, 2, 1, 1, 1, 3, 4), f32(4)),
    good("anti_quant", "transposed x", i8(5, 3).t(), f32(5)),
    good("anti_quant", "transposed int4", i32(2, 3).t(), f32(16)),
    good("anti_quant", "no rows", i32(0, 2), f32(16)),
    good("anti_quant", "no columns", i8(3, 0), f32(0)),
]
WRONG = [
    bad("anti_quant", "x", "x uint8", u8(3, 5), f32(5)),
    bad("anti_quant", "x", "x float16", f16(3, 5), f32(5)),
    bad("anti_quant", "x", "no dimension", i8(), f32(1)),
    bad("anti_quant", "x", "int4 of no dimension", i32(), f32(1)),
    bad("anti_quant", "x", "nine dimensions", i8(1, 1, 1, 1, 1, 1, 1, 1, 4), f32(4)),
    bad("anti_quant", "scale", "scale float16", i8(3, 5), f16(5)),
    bad("anti_quant", "scale", "scale of two dimensions", i8(3, 5), f32(1, 5)),
    bad("anti_quant", "scale.size(0)", "scale too short", i8(3, 5), f32(4)),
    bad("anti_quant", "scale.size(0)", "scale of the packed width", i32(3, 2), f32(2)),
    bad("anti_quant", "offset", "offset of another dtype", i8(3, 5), f32(5), offset=bf16(5)),
    bad("anti_quant", "offset", "offset of two dimensions", i8(3, 5), f32(5), offset=f32(1, 5)),
    bad("anti_quant", "offset.size(0)", "offset of another length", i8(3, 5), f32(5), offset=f32(1)),
    bad("anti_quant", "dst_dtype", "float32", i8(3, 5), f32(5), dst_dtype=torch.float32),
    bad("anti_quant", "dst_dtype", "unknown number", i8(3, 5), f32(5), dst_dtype=999),
    bad("anti_quant", "src_dtype", "int8 called int4", i8(3, 5), f32(5), src_dtype=INT4),
    bad("anti_quant", "src_dtype", "int4 called int8", i32(3, 2), f32(16), src_dtype=torch.int8),
]


def golden(x: torch.Tensor, dtype: torch.dtype) -> Case:
    def call(x: torch.Tensor, scale: torch.Tensor, offset: torch.Tensor) -> torch.Tensor:
        return torch_npu.npu_anti_quant(x, scale, offset=offset, dst_dtype=dtype)

    return call, (x, f32(16), f32(16))


GOLDEN = {
    "anti_quant-int8": golden(i8(4, 16), torch.float16),
    "anti_quant-int4": golden(i32(4, 2), torch.bfloat16),
}


@st.composite
def calls(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    shape = tuple(draw(st.lists(SIZES, min_size=1, max_size=4)))
    x = tensor(draw, shape, torch.int8, torch.int32)
    width = x.size(-1) * (8 if x.dtype == torch.int32 else 1) if x.dim() else 1
    scale = tensor(draw, (draw(st.sampled_from([1, width])),), torch.float32, torch.bfloat16)
    source = INT4 if x.dtype == torch.int32 else torch.int8
    options = {
        "offset": optional(draw, tuple(scale.shape), scale.dtype),
        "dst_dtype": draw(st.sampled_from([None, torch.float16, torch.bfloat16, torch.float32, 999])),
        "src_dtype": mostly(draw, draw(st.sampled_from([None, source])), st.sampled_from([INT4, torch.int8])),
    }
    return (x, scale), options


CALLS = {"npu_anti_quant": calls()}


def expected(
    x: torch.Tensor, scale: torch.Tensor, offset: torch.Tensor | None = None, dst_dtype: torch.dtype = torch.float16
) -> torch.Tensor:
    """Sum and product in float32, then one rounding."""
    whole = x.numpy().astype(np.int64)
    if x.dtype == torch.int32:  # eight int4, the first in the lowest four bits
        unsigned = (whole[..., None] >> (4 * np.arange(8))) & 0xF
        whole = np.where(unsigned > 7, unsigned - 16, unsigned).reshape(*x.shape[:-1], -1)
    with np.errstate(all="ignore"):
        values = whole.astype(np.float32)
        if offset is not None:
            values = values + floats(offset)
        return torch.from_numpy(values * floats(scale)).to(dst_dtype)


@st.composite
def with_data(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    x = draw(st.sampled_from([i8(3, 16), i32(3, 2)]))
    parameters = [torch.tensor(draw(st.lists(st.floats(width=32), min_size=16, max_size=16))) for _ in range(2)]
    kind = draw(st.sampled_from([torch.float16, torch.bfloat16]))
    return (x, parameters[0]), {"offset": draw(st.sampled_from([None, parameters[1]])), "dst_dtype": kind}


STATEMENTS = {"npu_anti_quant": Statement(expected, with_data())}
