"""Calls of one_, npu_one_hot, npu_mish, npu_sign_bits_pack, npu_sign_bits_unpack and _npu_dtype_cast."""

import math
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from support.call_strategies import Draw
from support.call_table import Call, Statement, bad
from support.numpy_rules import floats
from support.tensors import bf16, ends, f16, f32, i8, u8

CLASSES = ends(5, 3, 0, -1)
GOOD = [
    *(Call(op, "to float16", (f32(3, 5), torch.float16)) for op in ("_npu_dtype_cast", "_npu_dtype_cast_backward")),
    Call("_npu_dtype_cast", "to int32", (f32(3, 5), torch.int32)),
    Call("_npu_dtype_cast", "to bool", (i8(3, 5), torch.bool)),
]
WRONG = [
    Call("one_", "complex", (torch.zeros(2, dtype=torch.complex64),), {}, "input"),
    bad("one_hot", "input", "float32", f32(3)),
    bad("one_hot", "num_classes", "another axis", CLASSES, 0, 5),
    bad("one_hot", "depth", "no class", CLASSES, -1, 0),
    bad("mish", "input", "bfloat16", bf16(3)),
    bad("mish", "input", "nine dimensions", f16(1, 1, 1, 1, 1, 1, 1, 1, 2)),
    bad("sign_bits_pack", "input", "bfloat16", bf16(8), 1),
    bad("sign_bits_pack", "input", "two dimensions", f32(2, 8), 1),
    bad("sign_bits_pack", "size", "no divisor", f32(24), 2),
    bad("sign_bits_pack", "size", "zero", f32(24), 0),
    bad("sign_bits_unpack", "input", "int8", i8(3), 1, torch.float32),
    bad("sign_bits_unpack", "input", "two dimensions", u8(3, 1), 1, torch.float32),
    bad("sign_bits_unpack", "dtype", "bfloat16", u8(3), 1, torch.bfloat16),
    bad("sign_bits_unpack", "size", "no divisor", u8(3), 5, torch.float32),
    Call("_npu_dtype_cast", "complex", (f32(3), torch.complex64), {}, "dtype"),
]


def expected_one_hot(x: torch.Tensor, **options: Any) -> Any:
    result = np.full((*x.shape, options["depth"]), options["off_value"], np.float32)
    for index, value in np.ndenumerate(x.numpy()):
        if 0 <= value < options["depth"]:
            result[(*index, value)] = options["on_value"]
    return result


def expected_mish(x: torch.Tensor) -> torch.Tensor:
    values = [value * math.tanh(math.log1p(math.exp(value))) for value in floats(x).ravel().tolist()]
    return torch.tensor(values, dtype=torch.float64).reshape(x.shape).to(x.dtype)


def expected_pack(x: torch.Tensor, size: int) -> Any:
    return np.packbits(floats(x) >= 0, bitorder="little").reshape(size, -1)


def expected_unpack(x: torch.Tensor, size: int, dtype: torch.dtype) -> torch.Tensor:
    signs = np.where(np.unpackbits(x.numpy(), bitorder="little"), 1.0, -1.0)
    return torch.from_numpy(signs.reshape(size, -1)).to(dtype)


@st.composite
def classes(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    values = torch.randint(-2, 9, (2, draw(st.integers(1, 4))), dtype=draw(st.sampled_from([torch.int32, torch.int64])))
    options = {"depth": draw(st.integers(1, 7)), "on_value": draw(st.sampled_from([1, 0.9])), "off_value": 0.1}
    return (values,), options


@st.composite
def halves(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return (draw(st.sampled_from([f16, f32]))(3, draw(st.integers(1, 9))),), {}


@st.composite
def packs(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    size = draw(st.integers(1, 3))
    x = draw(st.sampled_from([f16, f32]))(8 * size * draw(st.integers(1, 3)) - draw(st.integers(0, 7)))
    x[0] = draw(st.sampled_from([0.0, -0.0, -1.0]))
    return (x, size), {}


@st.composite
def unpacks(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    size = draw(st.sampled_from([1, 2, 8]))
    return (u8(size * draw(st.integers(1, 3))), size, draw(st.sampled_from([torch.float32, torch.float16]))), {}


CALLS = {"npu_one_hot": classes(), "npu_sign_bits_pack": packs()}
STATEMENTS = {
    "npu_one_hot": Statement(expected_one_hot, classes()),
    # exp, log and tanh in float32, then a rounding to float16.
    "npu_mish": Statement(expected_mish, halves(), bound=2.0**-10),
    "npu_sign_bits_pack": Statement(expected_pack, packs()),
    "npu_sign_bits_unpack": Statement(expected_unpack, unpacks()),
}
