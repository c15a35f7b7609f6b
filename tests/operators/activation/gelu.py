"""Calls of npu_gelu, npu_fast_gelu, fast_gelu, npu_silu, npu_silu_, npu_dtype_cast and npu_dtype_cast_backward."""

import math
from typing import Any

import numpy as np
import torch
import torch_npu
from hypothesis import strategies as st

from support.call_strategies import Draw
from support.call_table import Call, Statement, bad, good
from support.numpy_rules import floats
from support.tensors import bf16, f16, f32, i8

PLAIN = ("npu_gelu", "npu_fast_gelu", "fast_gelu", "npu_silu", "npu_silu_")
GOOD = [
    *(Call(op, str(x.dtype), (x,)) for op in PLAIN for x in (f16(3, 5), bf16(2, 3, 4), f32(7), f16(0, 4))),
    good("gelu", "tanh", f16(3, 5), approximate="tanh"),
    good("dtype_cast", "to bfloat16", f16(3, 5), torch.bfloat16),
    good("dtype_cast", "to int32", f32(3, 5), torch.int32),
    good("dtype_cast", "to float32", i8(3, 5), torch.float32),
    good("dtype_cast_backward", "from float16", f16(3, 5), torch.float32, 5),
    good("dtype_cast_backward", "from bfloat16, dtype omitted", bf16(3, 5), torch.float16),
]
WRONG = [
    *(Call(op, "int8", (i8(3, 5),), {}, "input") for op in PLAIN),
    *(Call(op, "nine dimensions", (f16(1, 1, 1, 1, 1, 1, 1, 1, 2),), {}, "input") for op in PLAIN),
    bad("gelu", "approximate", "unknown", f16(3, 5), approximate="erf"),
    bad("dtype_cast", "dtype", "complex", f32(3, 5), torch.complex64),
    bad("dtype_cast", "dtype", "unknown number", f32(3, 5), 296),
    bad("dtype_cast", "input_dtype", "a packed input", i8(3, 5), torch.float32, 296),
    bad("dtype_cast_backward", "dtype", "complex", f32(3, 5), torch.complex64),
    bad("dtype_cast_backward", "grad_dtype", "another than its own", f16(3, 5), torch.float32, 6),
    bad("dtype_cast_backward", "input_dtype", "a packed input", f16(3, 5), torch.float32, 5, 296),
]


def gelu(value: float, tanh: bool) -> float:
    if tanh:
        return value / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (value + 0.044715 * value**3)))
    return value / 2 * (1 + math.erf(value / math.sqrt(2)))


def each(function: Any) -> Any:
    """`function` of every element in double precision, rounded once to the dtype of the input."""

    def expected(x: torch.Tensor, **options: Any) -> torch.Tensor:
        values = np.vectorize(lambda value: function(float(value), **options), otypes=[np.float64])(floats(x))
        return torch.from_numpy(values).to(x.dtype)

    return expected


@st.composite
def with_data(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return (draw(st.sampled_from([f16, bf16, f32]))(3, draw(st.integers(1, 9))),), {}


# float32 functions with an error of a few units of 2**-24 may round to the next bfloat16, 2**-8 away.
BOUND = 2**-8
STATEMENTS = {
    "npu_gelu": Statement(each(lambda value: gelu(value, False)), with_data(), BOUND),
    "npu_fast_gelu": Statement(each(lambda value: value / (1 + math.exp(-1.702 * value))), with_data(), BOUND),
    "npu_silu": Statement(each(lambda value: value / (1 + math.exp(-value))), with_data(), BOUND),
    "npu_silu_": Statement(each(lambda value: value / (1 + math.exp(-value))), with_data(), BOUND),
}
GOLDEN = {
    "fast_gelu-float16": (torch_npu.npu_fast_gelu, (f16(3, 5),)),
    "dtype_cast-bfloat16": (lambda x: torch_npu.npu_dtype_cast(x, torch.bfloat16), (f16(3, 5),)),
}
