"""npu_add_rms_norm_dynamic_quant, npu_add_rms_norm_quant and npu_rms_norm_quant(_v2) on Ascend 950."""

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
import torch_npu
from graph_quant import chip, int4
from graph_quant.chip import ASCEND_950
from graph_quant.destination import Refusal
from graph_quant.narrow_floats import decode_hif8, encode_hif8

from support.ascend950 import assert_refused, run_in_every_mode
from support.tensors import bf16, f16, f32, i8, small32

HIF8, E5M2, E4M3, INT4 = 290, 291, 292, torch.quint4x2
TOPS = {torch.int8: 127.0, INT4: 7.0, E4M3: 448.0, E5M2: 57344.0, HIF8: 32768.0}
NUMPY = {E4M3: ml_dtypes.float8_e4m3fn, E5M2: ml_dtypes.float8_e5m2}
Calls = list[tuple[tuple[Any, ...], dict[str, Any]]]

dynamic, static = torch_npu.npu_add_rms_norm_dynamic_quant, torch_npu.npu_add_rms_norm_quant
alone, alone_v2 = torch_npu.npu_rms_norm_quant, torch_npu.npu_rms_norm_quant_v2


@pytest.fixture(autouse=True)
def on_950() -> Iterator[None]:
    with chip.use(ASCEND_950):
        yield


DYNAMIC: Calls = [
    ((f16(2, 3, 16), f16(2, 3, 16), f16(16)), {}),
    ((bf16(3, 40), bf16(3, 40), bf16(40)), {"y_dtype": E4M3, "smooth_scale1": bf16(40), "beta": bf16(40)}),
    ((f16(3, 40), f16(3, 40), f16(40)), {"y_dtype": HIF8, "output_mask": [False, True], "smooth_scale2": f16(40)}),
    ((f16(3, 16), f16(3, 16), f16(16)), {"y_dtype": E5M2, "smooth_scale1": f16(16), "smooth_scale2": f16(16)}),
    ((bf16(3, 16), bf16(3, 16), bf16(16)), {"y_dtype": INT4}),
]
STATIC: Calls = [
    ((f16(2, 3, 16), f16(2, 3, 16), f16(16), f32(16).abs() + 0.1, small32(16)), {}),
    ((bf16(3, 40), bf16(3, 40), bf16(40), bf16(40), bf16(40), bf16(40), bf16(40)), {"dst_type": E4M3}),
    ((f32(3, 16), f32(3, 16), f32(16), f32(16), f32(16)), {"dst_type": HIF8, "div_mode": False}),
    ((f16(3, 16), f16(3, 16), f16(16), f32(16), f32(16), f16(16)), {"dst_type": E5M2}),
]
ALONE: Calls = [
    ((f16(2, 3, 16), f16(16), f16(1, 16), f16(1), i8(1)), {}),
    ((bf16(3, 40), bf16(40), bf16(40), f32(40), f32(40)), {"dst_dtype": E4M3}),
    ((f32(3, 16), f32(16), f32(16), f32(1), f32(1)), {"dst_dtype": HIF8}),
    ((bf16(3, 16), bf16(16), bf16(16), bf16(1), bf16(1)), {"dst_dtype": INT4}),
]
ALONE_V2: Calls = [
    ((f16(2, 3, 16), f16(16), f16(1)), {"div_mode": False}),
    ((bf16(3, 40), bf16(40), f32(40)), {"offset": small32(40), "beta": bf16(40), "dst_dtype": E5M2}),
]


def test_graphs_and_meta_tensors_agree_with_eager_execution() -> None:
    run_in_every_mode(dynamic, DYNAMIC)
    run_in_every_mode(static, STATIC)
    run_in_every_mode(alone, ALONE)
    run_in_every_mode(alone_v2, ALONE_V2)


def _norm(wide: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor | None = None) -> Any:
    share = np.float32(1) / np.float32(wide.size(-1))
    mean = (wide * wide).sum(-1, keepdim=True).numpy() * share + np.float32(1e-6)
    rstd = (np.float64(1) / np.sqrt(mean.astype(np.float64))).astype(np.float32)
    normed = wide.numpy() * rstd * gamma.float().flatten().numpy()
    return normed if beta is None else normed + beta.float().flatten().numpy()


def _converted(values: Any, kind: Any) -> Any:
    """What a conversion of float32 gives, in float64; NaN becomes zero."""
    values, top = np.where(np.isnan(values), np.float32(0), values), TOPS[kind]
    if kind == HIF8:
        return decode_hif8(encode_hif8(torch.from_numpy(values))).double().numpy()
    if kind in NUMPY:
        return np.clip(values, -top, top).astype(NUMPY[kind]).astype(np.float64)
    return np.rint(np.clip(values, -top - 1, top)).astype(np.float64)


def _elements(y: torch.Tensor, kind: Any) -> Any:
    if kind == HIF8:
        return decode_hif8(y.cpu()).double().numpy()
    return (int4.unpack(y.cpu()) if kind == INT4 else y.cpu().float()).double().numpy()


def on_npu(values: Any) -> Any:
    if isinstance(values, dict):
        return {name: on_npu(value) for name, value in values.items()}
    return values.npu() if isinstance(values, torch.Tensor) else values


def test_dynamic_quantisation_in_numpy() -> None:
    for (x1, x2, gamma), options in DYNAMIC:
        kind = options.get("y_dtype", torch.int8)
        results = dynamic(x1.npu(), x2.npu(), gamma.npu(), **on_npu(options))
        wide = x1.float() + x2.float()
        assert torch.equal(results[2].cpu(), wide.to(x1.dtype))
        for index in (0, 1):
            smooth = options.get(f"smooth_scale{index + 1}")
            if not options.get("output_mask", [True, "smooth_scale2" in options])[index]:
                assert results[index].shape == ()
                continue
            values = _norm(wide, gamma, options.get("beta"))
            values = values if smooth is None else values * smooth.float().numpy()
            scale = np.abs(values).max(-1, keepdims=True) * (np.float32(1) / np.float32(TOPS[kind]))
            np.testing.assert_array_equal(results[3 + index].cpu().numpy(), scale[..., 0])
            np.testing.assert_array_equal(_elements(results[index], kind), _converted(values / scale, kind))


def _scaled(values: Any, scale: torch.Tensor, offset: torch.Tensor | None, divide: bool) -> Any:
    scaled = values / scale.float().numpy() if divide else values * scale.float().numpy()
    return scaled if offset is None else scaled + offset.float().numpy()


def test_static_quantisation_of_sums_in_numpy() -> None:
    for args, options in STATIC:
        x1, x2, gamma, scale1, zero1, beta, scale2 = (*args, None, None)[:7]
        kind, divide = options.get("dst_type", torch.int8), options.get("div_mode", True)
        y1, y2, total = static(*[on_npu(value) for value in args], **options)
        wide = x1.float() + x2.float()
        assert torch.equal(total.cpu(), wide.to(x1.dtype))
        values = _norm(wide, gamma, beta)
        expected = _converted(_scaled(values, scale1, zero1, divide), kind)
        np.testing.assert_array_equal(_elements(y1, kind), expected)
        second = _converted(_scaled(values, scale2, None, divide), kind) if scale2 is not None else expected * 0
        np.testing.assert_array_equal(_elements(y2, kind), second)


def test_static_quantisation_in_numpy() -> None:
    for args, options in ALONE:
        x, gamma, beta, scale, offset = args
        kind = options.get("dst_dtype", torch.int8)
        y = alone(*[on_npu(value) for value in args], **options)
        expected = _converted(_scaled(_norm(x.float(), gamma, beta), scale, offset, True), kind)
        np.testing.assert_array_equal(_elements(y, kind), expected)
    for (x, gamma, scale), options in ALONE_V2:
        kind, divide = options.get("dst_dtype", torch.int8), options.get("div_mode", True)
        y, rstd = alone_v2(x.npu(), gamma.npu(), scale.npu(), **on_npu(options))
        assert rstd.shape == (0,)
        values = _norm(x.float(), gamma, options.get("beta"))
        expected = _converted(_scaled(values, scale, options.get("offset"), divide), kind)
        np.testing.assert_array_equal(_elements(y, kind), expected)


def test_rows_of_zeros_have_no_scale() -> None:
    zeros = torch.zeros(2, 16).half().npu()
    y, _, _, scale, _ = dynamic(zeros, zeros, torch.ones(16).half().npu(), y_dtype=E4M3)
    assert not y.cpu().float().any()
    assert not scale.cpu().any()


X, G, S = f16(3, 16), f16(16), f32(16)
WRONG: list[tuple[Any, str, tuple[Any, ...], dict[str, Any]]] = [
    (dynamic, "y_dtype must be one of", (X, X, G), {"y_dtype": 296}),
    (static, "dst_type must be one of", (X, X, G, S, None), {"dst_type": INT4}),
    (static, "scales1 must be", (X, X, G, bf16(16), None), {}),
    (static, "zero_points1 must be", (X, X, G, f16(16), f32(16)), {}),
    (static, "scales1.size(0)", (X, X, G, f32(1), None, G), {}),
    (static, "scales2 must be", (X, X, G, S, None, None, f16(16)), {}),
    (static, "zero_points2 without", (X, X, G, S, None, None, None, S), {}),
    (alone, "scale must be", (X, G, G, bf16(1), i8(1)), {}),
    (alone, "offset must be", (X, G, G, f32(1), i8(1)), {}),
    (alone, "offset.size(0)", (X, G, G, S, f32(1)), {}),
    (alone, "scale.size(0)", (X, G, G, f32(8), f32(8)), {}),
    (alone_v2, "gamma must be", (X, f32(16), f32(1)), {}),
    (alone_v2, "dst_dtype must be one of", (X, G, f32(1)), {"dst_dtype": torch.uint8}),
    (alone_v2, "beta.size(-1)", (X, G, f32(1)), {"beta": f16(8)}),
]


@pytest.mark.parametrize(("operator", "message", "args", "options"), WRONG)
def test_wrong_calls_are_refused(operator: Any, message: str, args: tuple[Any, ...], options: dict[str, Any]) -> None:
    assert_refused(operator, message, args, options)


def test_other_chips_refuse_narrow_floats() -> None:
    with chip.use(chip.A2), pytest.raises(Refusal, match="y_dtype must be one of"):
        dynamic(X.npu(), X.npu(), G.npu(), y_dtype=E4M3)
