"""npu_dynamic_dual_level_mx_quant on Ascend 950: calls, refusals, and its two levels."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch_npu
from graph_quant import chip
from graph_quant.chip import ASCEND_950

from support.ascend950 import assert_refused, run_in_every_mode
from support.tensors import bf16, f16, f32

quantise = torch_npu.npu_dynamic_dual_level_mx_quant


@pytest.fixture(autouse=True)
def on_950() -> Iterator[None]:
    with chip.use(ASCEND_950):
        yield


CALLS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((f16(2, 600),), {}),
    ((bf16(2, 2, 96),), {"round_mode": "round"}),
    ((f16(40),), {"round_mode": "floor"}),
]


def test_graphs_and_meta_tensors_agree_with_eager_execution() -> None:
    run_in_every_mode(quantise, CALLS)


@pytest.mark.parametrize("index", range(len(CALLS)))
def test_the_second_level_is_npu_dynamic_mx_quant_of_the_quotients(index: int) -> None:
    (x,), options = CALLS[index]
    y, wide, scales = (result.cpu() for result in quantise(x.npu(), **options))
    quotients = []
    for block, scale in zip(x.split(512, -1), wide.unbind(-1), strict=True):
        largest = block.float().abs().amax(-1).numpy() * np.float32(1 / 6)
        np.testing.assert_array_equal(scale.numpy(), largest)
        quotients.append((block.float() / scale.unsqueeze(-1)).to(x.dtype))
    expected = torch_npu.npu_dynamic_mx_quant(torch.cat(quotients, -1).npu(), **options)
    assert torch.equal(y, expected[0].cpu())
    assert torch.equal(scales, expected[1].cpu())


def test_the_example_of_op_plugins_test() -> None:
    y, wide, scales = quantise(torch.full((1, 512), 8.0).bfloat16().npu())
    assert (y.cpu() == 119).all()
    assert wide.cpu().tolist() == [[pytest.approx(4 / 3)]]
    assert (scales.cpu() == 127).all()


def test_zeros_stay_zeros_and_infinities_have_no_part_in_the_first_level() -> None:
    x = torch.zeros(1, 64).bfloat16()
    x[0, 0], x[0, 32] = 6.0, float("inf")
    y, wide, scales = quantise(x.npu())
    assert wide.cpu().tolist() == [[1.0]]
    assert scales.cpu().tolist() == [[[127, 255]]]
    assert y.cpu().tolist() == [[7] + [0] * 31]
    y, wide, _ = quantise(torch.zeros(1, 64).half().npu())
    assert not y.cpu().any()
    assert wide.cpu().tolist() == [[0.0]]


WRONG: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("input must be", (f32(2, 64),), {}),
    ("input.size(-1)", (f16(2, 63),), {}),
    ("smooth_scale must be None", (f16(2, 64),), {"smooth_scale": f16(64)}),
    ("round_mode", (f16(2, 64),), {"round_mode": "trunc"}),
]


@pytest.mark.parametrize(("message", "args", "options"), WRONG)
def test_wrong_calls_are_refused(message: str, args: tuple[Any, ...], options: dict[str, Any]) -> None:
    assert_refused(quantise, message, args, options)
