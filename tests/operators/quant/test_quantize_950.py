"""npu_quantize and npu_group_quant on Ascend 950: calls, refusals, and the rule in NumPy."""

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
import torch_npu
from graph_quant import chip
from graph_quant.chip import ASCEND_950
from graph_quant.destination import Refusal
from graph_quant.narrow_floats import decode_hif8, encode_hif8

from support.ascend950 import assert_refused, run_in_every_mode, same_bits
from support.tensors import bf16, ends, f16, f32, i8, small32

HIF8, E5M2, E4M3 = 290, 291, 292
NUMPY = {E4M3: ml_dtypes.float8_e4m3fn, E5M2: ml_dtypes.float8_e5m2}
TOPS = {E4M3: 448.0, E5M2: 57344.0}

quantize = torch_npu.npu_quantize


@pytest.fixture(autouse=True)
def on_950() -> Iterator[None]:
    with chip.use(ASCEND_950):
        yield


CALLS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((f16(2, 3, 16), f16(16), f16(16), torch.qint8, -1, False), {}),
    ((f32(2, 16), bf16(2), None, torch.quint4x2, -2, False), {}),
    ((bf16(2, 3, 20), bf16(1), bf16(1), torch.float8_e4m3fn, -1, False), {}),
    ((f32(5, 37), f32(1, 37), None, E5M2, -1, False), {}),
    ((f16(4, 8), f16(8), f16(8), HIF8, -1, False), {}),
    ((f32(2, 3, 16), f32(3), f32(3), torch.quint8, 1), {}),
    ((f16(2, 3, 16), f16(3), small32(3), HIF8, 1), {}),
    ((bf16(3, 16), f32(16), i8(16), E4M3, 1), {}),
    ((bf16(3, 16), bf16(16), bf16(16), torch.qint32, 1), {}),
]


def test_graphs_and_meta_tensors_agree_with_eager_execution() -> None:
    run_in_every_mode(quantize, CALLS)


def test_inductor_agrees_with_eager_execution() -> None:
    run_in_every_mode(quantize, [CALLS[3], CALLS[6]], "inductor")


@pytest.mark.parametrize("kind", [E4M3, E5M2, HIF8])
@pytest.mark.parametrize("divide", [True, False])
def test_every_float16_is_rounded_and_saturates(kind: int, divide: bool) -> None:
    x = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(torch.float16)
    scale = torch.tensor([1.5 if divide else 3.0])
    y = quantize(x.float().npu(), scale.npu(), None, kind, -1, divide).cpu()
    with np.errstate(invalid="ignore"):
        values = x.float().numpy() / np.float32(1.5) if divide else x.float().numpy() * np.float32(3)
    values = np.where(np.isnan(values), np.float32(0), values)
    if kind == HIF8:
        assert torch.equal(y, encode_hif8(torch.from_numpy(values)))
        assert decode_hif8(y).isfinite().all()
    else:
        expected = np.clip(values, -TOPS[kind], TOPS[kind]).astype(NUMPY[kind])
        np.testing.assert_array_equal(y.view(torch.uint8).numpy(), expected.view(np.uint8))


def test_integers_are_those_of_other_chips() -> None:
    for args, _ in CALLS:
        if args[3] not in (torch.qint8, torch.quint4x2, torch.qint32):
            continue
        on_npu = [value.npu() if isinstance(value, torch.Tensor) else value for value in args]
        result = quantize(*on_npu)
        with chip.use(chip.A2):
            assert same_bits(quantize(*on_npu), result)


def test_group_quant_is_that_of_other_chips() -> None:
    args = f16(5, 16).npu(), f16(2, 16).npu(), ends(2, 5).npu()
    result = torch_npu.npu_group_quant(*args, dst_dtype=torch.qint8)
    with chip.use(chip.A2):
        assert same_bits(torch_npu.npu_group_quant(*args, dst_dtype=torch.qint8), result)


X = f16(3, 16)
WRONG: list[tuple[str, tuple[Any, ...]]] = [
    ("dtype must be one of", (X, f16(16), None, 296, -1, False)),
    ("dtype must be one of", (X, f16(16), None, torch.quint8, -1, False)),
    ("dtype torch.quint4x2 needs", (X, f32(16), None, torch.quint4x2, 1)),
    ("zero_points must be", (X, f32(16), f16(16), HIF8, 1)),
    ("scales.size(0)", (X, f32(8), None, E4M3, 1)),
    ("axis must lie in", (f16(2, 3, 16), f16(16), None, E4M3, -3, False)),
]


@pytest.mark.parametrize(("message", "args"), WRONG)
def test_wrong_calls_are_refused(message: str, args: tuple[Any, ...]) -> None:
    assert_refused(quantize, message, args, {})


@pytest.mark.parametrize("divide", [True, False])
def test_other_chips_refuse_narrow_floats(divide: bool) -> None:
    with chip.use(chip.A2), pytest.raises(Refusal, match="dtype must be one of"):
        quantize(X.npu(), torch.ones(16).npu(), None, E4M3, 1, divide)
