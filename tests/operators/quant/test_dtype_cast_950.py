"""npu_dtype_cast on Ascend 950: narrow floats, against ml_dtypes and en_dtypes, and back."""

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
import torch_npu
from graph_quant import chip
from graph_quant.chip import A2, ASCEND_950
from graph_quant.refusals import Refusal, UndescribedError

from support.ascend950 import assert_refused, run_in_every_mode
from support.tensors import bf16, f16, f32, i32

HIF8, E5M2, E4M3, E2M1, E1M2 = 290, 291, 292, 296, 297
cast = torch_npu.npu_dtype_cast
# Every finite and infinite float16, and NaN.
HALVES = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(torch.float16)


@pytest.fixture(autouse=True)
def on_950() -> Iterator[None]:
    with chip.use(ASCEND_950):
        yield


@pytest.mark.parametrize("engine", ["eager", "inductor"])
def test_modes_agree(engine: str) -> None:
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((f32(3, 70) * 100, HIF8), {}),
        ((bf16(3, 70) * 100, E2M1), {}),
        ((f16(70) * 100, E1M2), {}),
        ((f32(3, 70) * 1e5, torch.float8_e5m2), {}),
        ((f32(3, 70) * 1e3, E4M3), {}),
        ((f16(3, 70).to(torch.float8_e5m2), torch.bfloat16), {}),
        ((torch.arange(256).to(torch.uint8), torch.float16), {"input_dtype": E2M1}),
    ]
    run_in_every_mode(cast, calls, engine)


@pytest.mark.parametrize("number", [E4M3, E5M2])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_float8_rounds_half_to_even_and_does_not_saturate(number: int, dtype: torch.dtype) -> None:
    truth = ml_dtypes.float8_e4m3fn if number == E4M3 else ml_dtypes.float8_e5m2
    x = torch.cat([HALVES.to(dtype), torch.tensor([1e9, -1e9, 61439, 61440, 464, 464.1]).to(dtype)])
    y = cast(x.npu(), number).cpu()
    with np.errstate(all="ignore"):
        expected = x.float().numpy().astype(truth)
    is_nan = np.isnan(expected.astype(np.float32))
    assert torch.equal(y.float().isnan(), torch.from_numpy(is_nan))
    np.testing.assert_array_equal(y.view(torch.uint8).numpy()[~is_nan], expected.view(np.uint8)[~is_nan])
    assert torch.equal(x.npu().to(y.dtype).cpu().view(torch.uint8), y.view(torch.uint8))
    assert torch.equal(cast(y.npu(), torch.float32).cpu().nan_to_num(7), y.float().nan_to_num(7))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_hifloat8_is_that_of_en_dtypes(dtype: torch.dtype) -> None:
    en_dtypes = pytest.importorskip("en_dtypes")
    x = HALVES[~HALVES.isnan()].to(dtype)
    y = cast(x.npu(), HIF8)
    expected = x.float().numpy().astype(en_dtypes.hifloat8)
    np.testing.assert_array_equal(y.cpu().numpy(), expected.view(np.uint8))
    restored = cast(y, torch.float32, input_dtype=HIF8).cpu().numpy()
    np.testing.assert_array_equal(restored, expected.astype(np.float32))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_float4_rounds_by_way_of_bfloat16_and_saturates(dtype: torch.dtype) -> None:
    x = torch.cat([torch.linspace(-8, 8, 4097)[:-1], torch.tensor([2.5001, 0.2501, 1e6, -1e6])]).to(dtype)
    packed = cast(x.npu(), E2M1).cpu()
    assert (packed.dtype, packed.numel()) == (torch.uint8, x.numel() // 2)
    expected = x.float().numpy().astype(ml_dtypes.bfloat16).astype(ml_dtypes.float4_e2m1fn).view(np.uint8)
    np.testing.assert_array_equal(packed.numpy(), expected[0::2] | expected[1::2] << 4)
    restored = cast(packed.npu(), torch.float32, input_dtype=E2M1).cpu()
    np.testing.assert_array_equal(restored.numpy(), expected.view(ml_dtypes.float4_e2m1fn).astype(np.float32))


WRONG: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("input.size(-1) must be a multiple of 2", (f32(3), E2M1), {}),
    ("rank of input", (torch.tensor(1.0), E1M2), {}),
    ("input must be torch.uint8", (f32(4), torch.float32), {"input_dtype": HIF8}),
    ("input must be torch.float8_e5m2", (f32(4), torch.float32), {"input_dtype": E5M2}),
]


@pytest.mark.parametrize(("message", "args", "options"), WRONG)
def test_wrong_calls_are_refused(message: str, args: tuple[Any, ...], options: dict[str, Any]) -> None:
    assert_refused(cast, message, args, options)


def test_what_is_not_described_is_refused_by_name() -> None:
    with pytest.raises(UndescribedError, match=r"torch\.int32 to hifloat8 is not described"):
        cast(i32(3).npu(), HIF8)
    with pytest.raises(UndescribedError, match="float8_e4m3fn to hifloat8 is not described"):
        cast(f32(3).to(torch.float8_e4m3fn).npu(), HIF8)
    compiled = torch.compile(lambda x: cast(x, torch.float32, input_dtype=HIF8), backend="npu", fullgraph=True)
    with pytest.raises(Exception, match="HiFloat8 as an input is not described in graphs"):
        compiled(torch.zeros(3, dtype=torch.uint8).npu())
    with chip.use(A2), pytest.raises(Refusal, match="dtype must be one of"):
        cast(f32(3).npu(), HIF8)
