"""npu_quant_max on Ascend 950: calls, refusals, and the rule."""

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
import torch_npu
from graph_quant import chip
from graph_quant.chip import ASCEND_950
from graph_quant.narrow_floats import encode_hif8

from support.ascend950 import assert_refused, run_in_every_mode
from support.tensors import bf16, f16, f32, i8

HIF8, E5M2, E4M3 = 290, 291, 292
quantise = torch_npu.npu_quant_max


@pytest.fixture(autouse=True)
def on_950() -> Iterator[None]:
    with chip.use(ASCEND_950):
        yield


CALLS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((f16(2, 3, 16), f32(1)), {}),
    ((bf16(70), f32(1) * 1e3), {"dst_dtype": torch.float8_e4m3fn, "group_list": torch.tensor([70])}),
    ((f32(5, 7), f32(1)), {"dst_dtype": HIF8, "round_mode": "round"}),
]


def test_graphs_and_meta_tensors_agree_with_eager_execution() -> None:
    run_in_every_mode(quantise, CALLS)


@pytest.mark.parametrize("index", range(len(CALLS)))
def test_the_rule_in_numpy(index: int) -> None:
    (x, scale), options = CALLS[index]
    kind = options.get("dst_dtype", E5M2)
    kept = {name: value for name, value in options.items() if name != "group_list"}
    y, amax = (result.cpu() for result in quantise(x.npu(), scale.npu(), **kept))
    assert torch.equal(amax, x.abs().max().reshape(1))
    values = x.float().numpy() * scale.numpy()
    if kind == HIF8:
        assert torch.equal(y, encode_hif8(torch.from_numpy(values)))
        return
    target, top = (ml_dtypes.float8_e5m2, 57344) if kind == E5M2 else (ml_dtypes.float8_e4m3fn, 448)
    expected = np.clip(values, -top, top).astype(target)
    np.testing.assert_array_equal(y.view(torch.uint8).numpy(), expected.view(np.uint8))


X, S = f16(4, 16), f32(1)
WRONG: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("x must be", (i8(4, 16), S), {}),
    ("scale must be", (X, f16(1)), {}),
    ("scale.size(0)", (X, f32(2)), {}),
    ("dst_dtype must be one of", (X, S), {"dst_dtype": torch.int8}),
    ("round_mode", (X, S), {"round_mode": "round"}),
    ("round_mode", (X, S), {"dst_dtype": HIF8}),
    ("hybrid is not described", (X, S), {"dst_dtype": HIF8, "round_mode": "hybrid"}),
    ("group_list of several", (X, S), {"group_list": torch.tensor([2, 4])}),
]


@pytest.mark.parametrize(("message", "args", "options"), WRONG)
def test_wrong_calls_are_refused(message: str, args: tuple[Any, ...], options: dict[str, Any]) -> None:
    assert_refused(quantise, message, args, options)
