"""Calls of npu_gelu_quant."""

from typing import Any

import numpy as np
import torch
import torch_npu
from hypothesis import strategies as st

from operators.matmul.grouped_data import Call, Data
from support.arrays import exp, numbers, to_int8
from support.call_strategies import FLOATS, SIZES, Draw, mostly, optional, tensor
from support.call_table import Case, Statement, bad, good
from support.tensors import bf16, f16, f32, f64

OP = "gelu_quant"
X = bf16(6, 16)
STATIC: dict[str, Any] = {"input_scale": f32(16), "input_offset": f32(16), "quant_mode": "static"}
GOOD = [
    good(OP, "default", X),
    good(OP, "tanh", f16(2, 3, 16), approximate="tanh"),
    good(OP, "smoothed", f32(6, 5), input_scale=f32(5)),
    good(OP, "smoothed by one number", X, input_scale=bf16(1)),
    good(OP, "static", X, **STATIC),
    good(OP, "static, one number", f16(6, 16), input_scale=f16(1), input_offset=f16(1), quant_mode="static"),
    good(OP, "static without offset", f32(16), input_scale=f32(16), quant_mode="static", dst_type=torch.int8),
    good(OP, "a row of zeros", X * 0),
    good(OP, "far below and above", f32(2, 16) * 100, quant_mode="static", input_scale=f32(1)),
]
WRONG = [
    bad(OP, "approximate", "another gelu", X, approximate="erf"),
    bad(OP, "quant_mode", "not quantised", X, quant_mode="none"),
    bad(OP, "dst_type", "to uint8", X, dst_type=torch.uint8),
    bad(OP, "round_mode", "rounded otherwise", X, round_mode="round"),
    bad(OP, "input", "float64", f64(6, 16)),
    bad(OP, "input", "dynamic of one dimension", f32(16)),
    bad(OP, "input.size(0)", "no rows", f32(0, 16)),
    bad(OP, "input_scale", "static without scale", X, quant_mode="static"),
    bad(OP, "input_scale", "scale of another half", X, input_scale=f16(16)),
    bad(OP, "input_scale", "half scale of float32", f32(6, 16), input_scale=f16(16)),
    bad(OP, "input_scale", "scale of two dimensions", X, input_scale=f32(1, 16)),
    bad(OP, "input_scale.size(0)", "scale too short", X, input_scale=f32(8)),
    bad(OP, "input_offset", "dynamic with offset", X, input_scale=f32(16), input_offset=f32(16)),
    bad(OP, "input_offset", "offset of another dtype", X, **{**STATIC, "input_offset": bf16(16)}),
    bad(OP, "input_offset", "offset of two dimensions", X, **{**STATIC, "input_offset": f32(1, 16)}),
    bad(OP, "input_offset.size(0)", "offset too short", X, **{**STATIC, "input_offset": f32(8)}),
    bad(OP, "input_offset.size(0)", "one offset for many scales", X, **{**STATIC, "input_offset": f32(1)}),
]


def golden(**options: Any) -> Case:
    def call(x: torch.Tensor, scale: torch.Tensor) -> list[torch.Tensor]:
        results = torch_npu.npu_gelu_quant(x, input_scale=scale, **options)
        return [result for result in results if result is not None]

    return call, (X, f32(16))


GOLDEN = {"gelu_quant": golden(), "gelu_quant-static": golden(quant_mode="static")}


@st.composite
def generated(draw: Draw) -> Call:
    width, mode = draw(SIZES), mostly(draw, draw(st.sampled_from(["static", "dynamic"])), st.just("other"))
    shape = (*draw(st.sampled_from([(), (2,), (2, 3)])), width)
    x = tensor(draw, shape, *FLOATS)
    scale = optional(draw, (draw(st.sampled_from([1, width])),), torch.float32)
    offset = optional(draw, (width,), torch.float32) if mode == "static" else None
    return (x,), {"input_scale": scale, "input_offset": offset, "quant_mode": mode}


CALLS = {f"npu_{OP}": generated()}
POLYNOMIAL = (
    -0.3512339572e-8,
    0.2645266170e-6,
    -0.7929488134e-5,
    0.1106123840e-3,
    0.6518995814e-4,
    -0.7266616915e-1,
    -0.1595769883e1,
)


def gelu(x: Any, approximate: str) -> Any:
    one = np.float32(1)
    if approximate == "tanh":
        return x / (one + exp((x + x * x * x * np.float32(0.044715)) * np.float32(-1.5957691)))
    x = np.maximum(x, np.float32(-13.15))
    limited = np.minimum(x, np.float32(5.75))
    total = np.zeros_like(x)
    for coefficient in POLYNOMIAL:
        total = total * (limited * limited) + np.float32(coefficient)
    return x / (exp(total * limited) + one)


def expected(
    x: torch.Tensor,
    input_scale: torch.Tensor | None = None,
    input_offset: torch.Tensor | None = None,
    approximate: str = "none",
    quant_mode: str = "dynamic",
) -> list[Any]:
    values = gelu(numbers(x), approximate)
    values = values if input_scale is None else values * numbers(input_scale)
    with np.errstate(all="ignore"):
        if quant_mode == "static":
            return [to_int8(values if input_offset is None else values + numbers(input_offset))]
        multiplier = np.float32(127) / np.abs(values).max(-1, keepdims=True)
        return [to_int8(values * multiplier), (np.float32(1) / multiplier)[..., 0]]


@st.composite
def calls(draw: Draw) -> Call:
    data = Data(draw)
    dtype, width, mode = data.one_of(*FLOATS), data.one_of(1, 2, 9), data.one_of("static", "dynamic")
    options: dict[str, Any] = {"quant_mode": mode, "approximate": data.one_of("none", "tanh")}
    kind = data.one_of(torch.float32, dtype)
    size = data.one_of(1, width)
    if mode == "static" or data.one_of(True, False):
        options["input_scale"] = data.floats(kind, size)
    if mode == "static" and data.one_of(True, False):
        options["input_offset"] = data.floats(kind, size)
    return (data.floats(dtype, *data.one_of((3,), (2, 2)), width),), options


STATEMENTS = {f"npu_{OP}": Statement(expected, calls())}
