"""npu_anti_mx_quant on Ascend 950: calls, refusals, and the way back from npu_dynamic_mx_quant."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch_npu
from graph_quant import chip
from graph_quant.chip import ASCEND_950
from graph_quant.narrow_floats import decode, find_format, unpack_pairs

from support.ascend950 import assert_refused, run_in_every_mode
from support.tensors import bf16, f16, f32, u8

E5M2, E4M3, E2M1, E1M2 = 291, 292, 296, 297
restore = torch_npu.npu_anti_mx_quant


@pytest.fixture(autouse=True)
def on_950() -> Iterator[None]:
    with chip.use(ASCEND_950):
        yield


def quantised(x: torch.Tensor, kind: int) -> tuple[torch.Tensor, torch.Tensor]:
    with chip.use(ASCEND_950):
        y, scale = torch_npu.npu_dynamic_mx_quant(x.npu(), dst_type=kind)
    return y.cpu(), scale.cpu()


CALLS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    (quantised(f16(3, 70), E4M3), {}),
    (quantised(bf16(2, 3, 40), E5M2), {"src_type": torch.float8_e5m2, "dst_type": 6}),
    (quantised(bf16(3, 40), E2M1), {"src_type": E2M1, "dst_type": torch.float16, "axis": 1}),
    (quantised(bf16(64), E1M2), {"src_type": E1M2}),
]


def test_graphs_and_meta_tensors_agree_with_eager_execution() -> None:
    run_in_every_mode(restore, CALLS)


@pytest.mark.parametrize("index", range(len(CALLS)))
def test_values_are_codes_times_powers_of_two(index: int) -> None:
    (x, scale), options = CALLS[index]
    source = find_format(options.get("src_type", E4M3))
    assert source is not None
    y = restore(x.npu(), scale.npu(), **options).cpu()
    elements = decode(x if source.dtype is not None else unpack_pairs(x), source).numpy()
    powers = np.exp2(scale.numpy().astype(np.float64) - 127).reshape(*scale.shape[:-2], -1)
    expected = elements * np.repeat(powers, 32, -1)[..., : elements.shape[-1]]
    np.testing.assert_array_equal(y.double().numpy(), expected)
    as_codes = restore(x.npu(), scale.view(torch.float8_e8m0fnu).npu(), **options).cpu()
    assert torch.equal(as_codes, y)


def test_narrow_results_saturate() -> None:
    x = torch.full((1, 32), 448.0).to(torch.float8_e4m3fn)
    scale = torch.tensor([[[140, 0]]], dtype=torch.uint8)
    assert restore(x.npu(), scale.npu(), dst_type=torch.float16).cpu()[0, 0] == 65504
    assert restore(x.npu(), scale.npu(), dst_type=torch.float32).cpu()[0, 0] == 448 * 2.0**13


X, SCALE = torch.zeros(2, 32).to(torch.float8_e4m3fn), u8(2, 1, 2)
WRONG: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("x must be", (X, SCALE), {"src_type": E5M2}),
    ("x must be", (f32(2, 32), SCALE), {}),
    ("src_type", (X, SCALE), {"src_type": 290}),
    ("dst_type must be", (X, SCALE), {"dst_type": torch.int8}),
    ("axis must be the last", (X, SCALE), {"axis": 0}),
    ("mxscale must be", (X, f32(2, 1, 2)), {}),
    ("mxscale must have 3", (X, u8(2, 2)), {}),
    ("mxscale.size(1)", (X, u8(2, 2, 2)), {}),
]


@pytest.mark.parametrize(("message", "args", "options"), WRONG)
def test_wrong_calls_are_refused(message: str, args: tuple[Any, ...], options: dict[str, Any]) -> None:
    assert_refused(restore, message, args, options)
