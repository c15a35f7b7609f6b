"""npu_dynamic_block_mx_quant on Ascend 950: calls, refusals, and what it shares with npu_dynamic_mx_quant."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch_npu
from graph_quant import chip
from graph_quant.chip import ASCEND_950
from graph_quant.narrow_floats import encode, find_format, unpack_pairs

from support.ascend950 import assert_refused, run_in_every_mode
from support.tensors import bf16, f16, f32

E5M2, E4M3, E2M1, E1M2 = 291, 292, 296, 297
quantise = torch_npu.npu_dynamic_block_mx_quant


@pytest.fixture(autouse=True)
def on_950() -> Iterator[None]:
    with chip.use(ASCEND_950):
        yield


CALLS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((f16(70, 64),), {}),
    ((bf16(2, 33, 40),), {"dst_type": torch.float8_e4m3fn}),
    ((bf16(3, 10),), {"dst_type": E1M2, "round_mode": "floor"}),
    ((f16(40, 36),), {"scale_alg": 2, "dst_type_max": 7.0}),
    ((bf16(40, 36),), {"scale_alg": 2, "round_mode": "round"}),
]


def test_graphs_and_meta_tensors_agree_with_eager_execution() -> None:
    run_in_every_mode(quantise, CALLS)


@pytest.mark.parametrize("index", range(len(CALLS)))
def test_blocks_have_the_scale_of_their_largest_magnitude(index: int) -> None:
    (x,), options = CALLS[index]
    y, one, other = (result.cpu() for result in quantise(x.npu(), **options))
    rows, columns = x.shape[-2:]
    target = find_format(options.get("dst_type", E2M1))
    assert target is not None
    batches = zip(x.reshape(-1, rows, columns), y, one, other, strict=True) if x.dim() == 3 else [(x, y, one, other)]
    for matrix, codes, of_rows, of_columns in batches:
        elements = codes if target.dtype is not None else unpack_pairs(codes)
        for i in range(0, rows, 32):
            for j in range(0, columns, 32):
                block = matrix[i : i + 32, j : j + 32]
                largest = block.abs().max().expand(1, 32).contiguous().npu()
                code = int(torch_npu.npu_dynamic_mx_quant(largest, **options)[1].cpu()[0, 0, 0])
                assert (of_rows[i : i + 32, j // 64, j // 32 % 2] == code).all()
                assert (of_columns[i // 64, j : j + 32, i // 32 % 2] == code).all()
                expected = encode(block.float() * 2.0 ** (127 - code), target, options.get("round_mode", "rint"))
                ours = elements[i : i + 32, j : j + 32].contiguous()
                assert torch.equal(ours.view(torch.uint8), expected.view(torch.uint8))


def test_tiny_blocks_are_multiplied_and_subnormal_ones_are_zeros() -> None:
    tiny = torch.ones(32, 64).bfloat16() * 2.0**-120
    tiny[:, 32:] = 2.0**-130
    y, one, _ = quantise(tiny.npu(), dst_type=E4M3)
    assert not one.cpu().any()
    assert y.cpu().float()[0].tolist() == [128.0] * 32 + [0.0] * 32


X = f16(32, 64)
WRONG: list[tuple[str, torch.Tensor, dict[str, Any]]] = [
    ("input must be", f32(32, 64), {}),
    ("input must have 2 to 3", f16(2, 2, 2, 2), {}),
    ("dst_type", X, {"dst_type": 290}),
    ("round_mode", X, {"dst_type": E4M3, "round_mode": "floor"}),
    ("scale_alg", X, {"dst_type": E5M2, "scale_alg": 1}),
    ("scale_alg", X, {"dst_type": E5M2, "scale_alg": 2}),
    ("dst_type_max", X, {"dst_type_max": 6.0}),
    ("dst_type_max", X, {"scale_alg": 2, "dst_type_max": 8.0}),
    ("input.size(-1)", f16(32, 63), {}),
]


@pytest.mark.parametrize(("message", "x", "options"), WRONG)
def test_wrong_calls_are_refused(message: str, x: torch.Tensor, options: dict[str, Any]) -> None:
    assert_refused(quantise, message, (x,), options)
