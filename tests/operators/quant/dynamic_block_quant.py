"""Calls of npu_dynamic_block_quant."""

from typing import Any

import numpy as np
import torch
import torch_npu
from hypothesis import strategies as st

from support.call_strategies import SEEDS, Draw, mostly, tensor
from support.call_table import Case, Statement, bad, good
from support.numpy_rules import floats
from support.tensors import bf16, f16, f32

OP = "dynamic_block_quant"
X = f16(3, 200)
GOOD = [
    good(OP, "two blocks a row, one of them short", X),
    good(OP, "the document's shape", f16(3, 4), min_scale=0.0, dst_type=1, row_block_size=1, col_block_size=128),
    good(OP, "bfloat16 of three dimensions", bf16(2, 3, 128), dst_type=1),
    good(OP, "a bound", f16(2, 130), min_scale=20.0),
    good(OP, "zeros", torch.zeros(2, 130).half()),
    good(OP, "views", f16(200, 3).t()),
]
WRONG = [
    bad(OP, "x", "float32", f32(3, 200)),
    bad(OP, "x", "one dimension", f16(200)),
    bad(OP, "x", "four dimensions", f16(1, 1, 2, 200)),
    bad(OP, "x.size(0)", "no row", f16(0, 200)),
    bad(OP, "min_scale", "a negative bound", X, min_scale=-1.0),
    bad(OP, "round_mode", "floor", X, round_mode="floor"),
    bad(OP, "dst_type", "float8 of Ascend 950", X, dst_type=24),
    bad(OP, "row_block_size", "blocks of rows, of Ascend 950", X, row_block_size=128),
    bad(OP, "col_block_size", "narrow blocks, of Ascend 950", X, col_block_size=64),
    bad(OP, "dst_type_max", "dst_type_max of Ascend 950", X, dst_type_max=15.0),
]


def golden() -> Case:
    return lambda x: torch_npu.npu_dynamic_block_quant(x, min_scale=0.5), (X,)


GOLDEN = {OP: golden()}


@st.composite
def calls(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    shape = draw(st.sampled_from([(2, 3), (1, 128), (2, 2, 129)]))
    options = {"min_scale": mostly(draw, 0.5, st.just(-1.0)), "dst_type": mostly(draw, 1, st.sampled_from([3, 24]))}
    return (tensor(draw, shape, torch.float16, torch.bfloat16),), options


def expected(x: torch.Tensor, min_scale: float = 0.0) -> Any:
    """Block by block; zeros have no reciprocal, and stay zeros."""
    rows = floats(x).reshape(-1, x.shape[-1])
    integers, scales = np.zeros(rows.shape, np.int8), np.zeros((len(rows), -(-rows.shape[1] // 128)), np.float32)
    for row, values in enumerate(rows):
        for block in range(scales.shape[1]):
            part = slice(128 * block, 128 * block + 128)
            largest = np.abs(values[part]).max()
            scale = largest * (np.float32(1) / np.float32(127))
            multiplier = np.float32(1) / largest * np.float32(127) if largest else np.float32(0)
            if min_scale:
                multiplier = max(multiplier, np.float32(min_scale))
                scale = min(scale, np.float32(1) / np.float32(min_scale))
            integers[row, part] = np.clip(np.rint(values[part] * multiplier), -128, 127)
            scales[row, block] = scale
    return integers.reshape(tuple(x.shape)), scales.reshape(*x.shape[:-1], -1)


@st.composite
def with_data(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    draw(SEEDS)
    make = draw(st.sampled_from([f16, bf16]))
    shape = draw(st.sampled_from([(3, 4), (2, 128), (1, 300), (2, 2, 129)]))
    x = make(*shape) * draw(st.sampled_from([1.0, 100.0]))
    if draw(st.booleans()):
        x[..., :128] = 0
    return (x,), {"min_scale": draw(st.sampled_from([0.0, 0.5, 100.0]))}


CALLS = {f"npu_{OP}": calls()}
STATEMENTS = {f"npu_{OP}": Statement(expected, with_data())}
