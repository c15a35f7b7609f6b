"""Calls of npu_trans_quant_param."""

from typing import Any

import torch
import torch_npu
from hypothesis import strategies as st

from support.call_strategies import Draw, mostly, optional, tensor
from support.call_table import Case, bad, good
from support.tensors import f16, f32, i8, nz, small32

GOOD = [
    good("trans_quant_param", "(1,)", f32(1)),
    good("trans_quant_param", "(n,)", f32(16), round_mode=1),
    good("trans_quant_param", "(1, n)", f32(1, 16), f32(1, 16)),
    good("trans_quant_param", "(1,) with (n,)", f32(1), f32(16)),
    good("trans_quant_param", "(n,) with (1,)", f32(16), f32(1), 1),
    good("trans_quant_param", "round_mode None", f32(16), f32(16), None),
    good("trans_quant_param", "strided", f32(32)[::2], f32(32)[::2]),
]
WRONG = [
    bad("trans_quant_param", "scale", "float16", f16(16)),
    bad("trans_quant_param", "scale", "three dimensions", f32(1, 1, 16)),
    bad("trans_quant_param", "scale", "no dimension", f32()),
    bad("trans_quant_param", "scale.size(0)", "empty", f32(0)),
    bad("trans_quant_param", "scale.size(0)", "(g, n) with an offset", f32(4, 16), f32(4, 16)),
    bad("trans_quant_param", "scale.size(0)", "(g, n)", f32(4, 16)),
    bad("trans_quant_param", "scale.size(0)", "(g, 1)", f32(4, 1)),
    bad("trans_quant_param", "offset", "offset int32", f32(16), small32(16)),
    bad("trans_quant_param", "offset", "offset of another rank", f32(16), f32(1, 16)),
    bad("trans_quant_param", "offset.size(0)", "empty offset", f32(16), f32(0)),
    bad("trans_quant_param", "offset.size(0)", "other length", f32(16), f32(8)),
    bad("trans_quant_param", "offset.size(1)", "(1, n) with (1, 1)", f32(1, 16), f32(1, 1)),
    bad("trans_quant_param", "round_mode", "round_mode 2", f32(16), None, 2),
]
WRONG_FORMATS = [
    bad("trans_quant_param", "scale", "scale in FRACTAL_NZ", nz(f32(1, 16))),
    bad("trans_quant_param", "offset", "offset in FRACTAL_NZ", f32(1, 16), nz(f32(1, 16))),
]


def matmul_of_params(x1: torch.Tensor, x2: torch.Tensor, scale: torch.Tensor, offset: torch.Tensor) -> torch.Tensor:
    return torch_npu.npu_quant_matmul(x1, x2, torch_npu.npu_trans_quant_param(scale, offset))


GOLDEN: dict[str, Case] = {
    "trans_quant_param-output": (torch_npu.npu_trans_quant_param, (f32(1), f32(16))),
    "trans_quant_param-matmul": (matmul_of_params, (i8(4, 32), i8(32, 16), f32(16), f32(16))),
}


@st.composite
def calls(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    shape = draw(st.sampled_from([(1,), (8,), (1, 8), (3, 8), (3, 1)]))
    other = draw(st.sampled_from([shape, (1,), (8,)]))
    round_mode = mostly(draw, draw(st.sampled_from([None, 0, 1])), st.integers(-1, 3))
    scale = tensor(draw, shape, torch.float32)
    return (scale, optional(draw, other, torch.float32), round_mode), {}


CALLS = {"npu_trans_quant_param": calls()}
