"""Calls of npu_dequant_bias."""

from typing import Any

import numpy as np
import torch
import torch_npu
from hypothesis import strategies as st

from support.call_strategies import SIZES, Draw, optional, tensor
from support.call_table import Case, Statement, bad, good
from support.numpy_rules import floats
from support.tensors import bf16, f16, f32, i8, i32, small32

OP, HALF = "dequant_bias", {"output_dtype": torch.bfloat16}
X = small32(3, 5)
GOOD = [
    good(OP, "float16", X, f32(5), None, None),
    good(OP, "float16, all of it", X, f32(5), f32(3), f16(5), output_dtype=torch.float16),
    good(OP, "int32 bias", X, f32(5), f32(3), small32(5)),
    good(OP, "bfloat16", X, bf16(5), f32(3), bf16(5), **HALF),
    good(OP, "bfloat16 with a float32 bias", X, bf16(5), None, f32(5), **HALF),
    good(OP, "large accumulators, transposed", i32(5, 3).t(), bf16(5), f32(3), small32(5), **HALF),
    good(OP, "one of each", small32(1, 1), f32(1), f32(1), None),
]
WRONG = [
    bad(OP, "x", "x int8", i8(3, 5), f32(5), None, None),
    bad(OP, "x", "x of one dimension", small32(5), f32(5), None, None),
    bad(OP, "x.size(0)", "no row", small32(0, 5), f32(5), None, None),
    bad(OP, "x.size(0)", "too many rows", small32(25001, 1), f32(1), None, None),
    bad(OP, "weight_scale", "bfloat16 scale for float16", X, bf16(5), None, None),
    bad(OP, "weight_scale", "float32 scale for bfloat16", X, f32(5), None, None, **HALF),
    bad(OP, "weight_scale", "scale of two dimensions", X, f32(1, 5), None, None),
    bad(OP, "weight_scale.size(0)", "one scale", X, f32(1), None, None),
    bad(OP, "activation_scale", "activation_scale float16", X, f32(5), f16(3), None),
    bad(OP, "activation_scale", "activation_scale of two dimensions", X, f32(5), f32(3, 1), None),
    bad(OP, "activation_scale.size(0)", "a row too few", X, f32(5), f32(2), None),
    bad(OP, "bias", "bias int8", X, f32(5), None, i8(5)),
    bad(OP, "bias", "bias of two dimensions", X, f32(5), None, f32(1, 5)),
    bad(OP, "bias.size(0)", "bias short", X, f32(5), None, f32(1)),
    bad(OP, "output_dtype", "float32 results", X, f32(5), None, None, output_dtype=torch.float32),
]


def golden(dtype: torch.dtype, *args: torch.Tensor) -> Case:
    def call(x: torch.Tensor, scale: torch.Tensor, tokens: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return torch_npu.npu_dequant_bias(x, scale, tokens, bias, output_dtype=dtype)

    return call, args


GOLDEN = {"dequant_bias": golden(torch.bfloat16, X, bf16(5), f32(3), small32(5))}


@st.composite
def calls(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    rows, columns = draw(SIZES), draw(SIZES)
    output = draw(st.sampled_from([None, torch.float16, torch.bfloat16, torch.float32]))
    scale = tensor(draw, (columns,), torch.bfloat16 if output == torch.bfloat16 else torch.float32)
    tokens = optional(draw, (rows,), torch.float32)
    bias = optional(draw, (columns,), torch.int32, torch.float16)
    return (tensor(draw, (rows, columns), torch.int32), scale, tokens, bias), {"output_dtype": output}


def expected(
    x: torch.Tensor,
    scale: torch.Tensor,
    tokens: torch.Tensor | None,
    bias: torch.Tensor | None,
    output_dtype: torch.dtype = torch.float16,
) -> torch.Tensor:
    """Element by element in float32."""
    whole = x.numpy().astype(np.int64)
    if bias is not None and bias.dtype == torch.int32:
        whole = whole + bias.numpy()
    with np.errstate(all="ignore"):
        values = whole.astype(np.float32) * floats(scale)
        if tokens is not None:
            values = values * floats(tokens)[:, None]
        if bias is not None and bias.dtype != torch.int32:
            values = values + floats(bias)
        return torch.from_numpy(values).to(output_dtype)


@st.composite
def with_data(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    half = draw(st.booleans())

    def some(count: int) -> torch.Tensor:
        return torch.tensor(draw(st.lists(st.floats(width=32), min_size=count, max_size=count)))

    accumulators = st.lists(st.integers(-(2**30), 2**30), min_size=12, max_size=12)
    x = torch.tensor(draw(accumulators), dtype=torch.int32).reshape(3, 4)
    bias = draw(st.sampled_from([None, small32(4), some(4), some(4).half(), some(4).bfloat16()]))
    scale = some(4).bfloat16() if half else some(4)
    output = {"output_dtype": torch.bfloat16 if half else torch.float16}
    return (x, scale, draw(st.sampled_from([None, some(3)])), bias), output


CALLS = {"npu_dequant_bias": calls()}
STATEMENTS = {"npu_dequant_bias": Statement(expected, with_data())}
