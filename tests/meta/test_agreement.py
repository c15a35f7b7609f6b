"""Thousands of generated calls of each operator, right and wrong: inference and eager execution agree on all.

They agree on shape, dtype and strides, and on the words of a refusal. Calls are drawn near the rules'
edges: sizes from a handful of values, so that they match about as often as not, and dtypes with a wrong one
now and then.
"""

from typing import Any

import torch
from hypothesis import strategies as st

from support.calls import packed
from support.generated import FLOATS, HALVES, NEAR, SIZES, Draw, generated, group_ends, mostly, optional, tensor

DESTINATIONS = st.sampled_from(
    [None, torch.int8, torch.qint8, torch.quint4x2, torch.quint4x2, torch.quint8, torch.float32]
)


@st.composite
def group_quant(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    rows, width, groups = draw(SIZES), draw(SIZES), draw(st.sampled_from([1, 2, 3]))
    scale = tensor(draw, (groups, width), *FLOATS)
    args = tensor(draw, (rows, width), *FLOATS), scale, group_ends(draw, groups, rows, torch.int32, torch.int64)
    return args, {"offset": optional(draw, (1,), scale.dtype), "dst_dtype": draw(DESTINATIONS)}


@st.composite
def quantize(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    shape = tuple(draw(st.lists(SIZES, min_size=1, max_size=4)))
    divide = draw(st.booleans())
    axis = draw(st.integers(-3, 4)) if draw(NEAR) < 3 else -1
    where = axis if divide else min(axis, -1)
    length = draw(st.sampled_from([1, shape[where] if -len(shape) <= where < len(shape) else 2]))
    full = (1,) * (len(shape) - 1) + (length,) if where == -1 and draw(NEAR) < 2 else (length,)
    scales = tensor(draw, full, *((torch.float32, torch.bfloat16) if divide else FLOATS))
    kinds = (torch.int8, torch.uint8, torch.int32) if divide else (scales.dtype,)
    zero_points = optional(draw, tuple(scales.shape), *kinds)
    spellings = [torch.qint8, torch.int8, torch.quint8, torch.qint32] if divide else [torch.qint8, torch.quint4x2]
    spelling = mostly(draw, draw(st.sampled_from(spellings)), st.sampled_from([torch.float32, torch.quint4x2, 999]))
    return (tensor(draw, shape, *FLOATS), scales, zero_points, spelling, axis, divide), {}


@st.composite
def trans_quant_param(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    shape = draw(st.sampled_from([(1,), (8,), (1, 8), (3, 8), (3, 1)]))
    other = draw(st.sampled_from([shape, (1,), (8,)]))
    round_mode = mostly(draw, draw(st.sampled_from([None, 0, 1])), st.integers(-1, 3))
    scale = tensor(draw, shape, torch.float32)
    return (scale, optional(draw, other, torch.float32), round_mode), {}


@st.composite
def dynamic(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    shape = tuple(draw(st.lists(SIZES, min_size=2, max_size=4)))
    mode = mostly(draw, draw(st.sampled_from(["pertoken", "pertensor", "perchannel"])), st.just("pergroup"))
    options = {"quant_mode": mode, "dst_type": draw(DESTINATIONS), "dst_type_max": draw(st.sampled_from([0.0, 9.0]))}
    if mostly(draw, mode == "pertoken", st.booleans()) and draw(st.booleans()):
        groups = draw(st.sampled_from([1, 2, 3]))
        rows = torch.Size(shape[:-1]).numel()
        options["smooth_scales"] = tensor(draw, (groups, shape[-1]), *HALVES)
        options["group_index"] = group_ends(draw, groups, rows, torch.int32)
    else:
        options["smooth_scales"] = optional(draw, (shape[-2 if mode == "perchannel" else -1],), *HALVES)
    return (tensor(draw, shape, *HALVES),), options


@st.composite
def quant_matmul(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    output = draw(st.sampled_from([None, torch.int8, torch.float16, torch.bfloat16, torch.int32]))
    m, k, n = draw(SIZES), draw(st.sampled_from([1, 8, 16])), draw(st.sampled_from([1, 8, 16]))
    int4 = draw(NEAR) < 3
    left = tuple(draw(st.lists(st.sampled_from([0, 1, 2]), max_size=2)))
    right = () if int4 else tuple(draw(st.lists(st.sampled_from([1, 2]), max_size=2)))
    kind = torch.int32 if int4 else torch.int8
    x1 = tensor(draw, (*left, m, k), kind)
    x2 = tensor(draw, (*right, k * 8 if int4 and draw(st.booleans()) else k, n), kind)
    columns = x2.size(-1) * 8 if int4 and x2.dim() > 1 and x1.dim() and x2.size(-2) != x1.size(-1) else n
    floating = output is torch.bfloat16 or output is torch.int32
    scale = tensor(draw, (columns,), torch.float32, *((torch.bfloat16,) if floating else ()))
    if not floating and draw(st.booleans()):
        scale = packed(mostly(draw, columns, SIZES))
    options = {
        "output_dtype": output,
        "offset": optional(draw, (columns,), torch.float32) if output in (None, torch.int8) else None,
        "pertoken_scale": optional(draw, (m,), torch.float32) if draw(NEAR) < 4 else None,
        "bias": optional(draw, (columns,), torch.int32, torch.float32) if draw(NEAR) < 5 else None,
    }
    return (x1, x2, scale), options


test_group_quant = generated("npu_group_quant", group_quant())
test_quantize = generated("npu_quantize", quantize())
test_trans_quant_param = generated("npu_trans_quant_param", trans_quant_param())
test_dynamic_quant_asymmetric = generated("npu_dynamic_quant_asymmetric", dynamic())
test_dynamic_quant = generated("npu_dynamic_quant", dynamic())
test_quant_matmul = generated("npu_quant_matmul", quant_matmul())
