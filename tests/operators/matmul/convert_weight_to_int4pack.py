"""Calls of npu_convert_weight_to_int4pack."""

from typing import Any

import torch
import torch_npu
from hypothesis import strategies as st

from support.call_strategies import SIZES, Draw, tensor
from support.call_table import Statement, bad, good
from support.numpy_rules import pack
from support.tensors import f32, i8

OP = "convert_weight_to_int4pack"


def elements(*shape: int) -> torch.Tensor:
    return (i8(*shape) >> 4).to(torch.int32)


GOOD = [
    good(OP, "(k, n)", elements(4, 32)),
    good(OP, "one row", elements(1, 8)),
    good(OP, "experts", elements(3, 5, 16)),
    good(OP, "inner_k_tiles, which nothing reads", elements(4, 16), 1),
]
WRONG = [
    bad(OP, "weight", "weight int8", i8(4, 16)),
    bad(OP, "weight", "weight float32, which Ascend 950 packs", f32(4, 16)),
    bad(OP, "weight", "one dimension", elements(16)),
    bad(OP, "weight", "four dimensions", elements(1, 1, 4, 16)),
    bad(OP, "weight.size(0)", "no row", elements(0, 16)),
    bad(OP, "weight.size(-1)", "twelve columns", elements(4, 12)),
    bad(OP, "weight", "a transposed view", elements(16, 8).t()),
]
WRONG_VALUES = [
    bad(OP, "weight[1, 3]", "eight", torch.where(torch.arange(16).reshape(2, 8) == 11, 8, 0).int()),
    bad(OP, "weight[0, 0]", "minus nine", torch.full((1, 8), -9, dtype=torch.int32)),
]
GOLDEN = {"convert_weight_to_int4pack": (torch_npu.npu_convert_weight_to_int4pack, (elements(4, 32),))}


@st.composite
def calls(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    shape = tuple(draw(st.lists(SIZES, min_size=1, max_size=3)))
    return (tensor(draw, shape, torch.int32),), {}


@st.composite
def with_data(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    row = st.lists(st.integers(-8, 7), min_size=16, max_size=16)
    return (torch.tensor(draw(st.lists(row, min_size=1, max_size=3)), dtype=torch.int32),), {}


CALLS = {"npu_convert_weight_to_int4pack": calls()}
STATEMENTS = {"npu_convert_weight_to_int4pack": Statement(lambda weight: pack(weight.numpy()), with_data())}
