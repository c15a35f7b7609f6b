"""npu_dequant_swiglu_quant and npu_swiglu_quant on Ascend 950: calls, refusals, and the rule in NumPy."""

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
import torch_npu
from graph_quant import chip
from graph_quant.chip import ASCEND_950
from graph_quant.host.engine import use
from graph_quant.narrow_floats import decode_hif8, encode_hif8

from support.ascend950 import assert_refused, run_in_every_mode
from support.tensors import bf16, f16, f32, i8, small32

HIF8, E5M2, E4M3 = 290, 291, 292
TOPS = {torch.int8: 127.0, E4M3: 448.0, E5M2: 57344.0, HIF8: 32768.0}
NUMPY = {E4M3: ml_dtypes.float8_e4m3fn, E5M2: ml_dtypes.float8_e5m2}
operator = torch_npu.npu_dequant_swiglu_quant


@pytest.fixture(autouse=True)
def on_950() -> Iterator[None]:
    with chip.use(ASCEND_950):
        yield


def small(*shape: int) -> torch.Tensor:
    return f32(*shape).abs() * 0.01 + 0.01


COUNTS = torch.tensor([2, 0, 3])
CALLS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((small32(5, 32),), {"weight_scale": small(32), "activation_scale": small(5), "quant_mode": 1}),
    (
        (small32(2, 3, 16),),
        {"weight_scale": small(1, 16), "bias": small32(16), "quant_scale": small(1), "dst_type": E4M3},
    ),
    ((bf16(5, 32),), {"activate_left": True, "quant_mode": 1, "quant_scale": small(16), "dst_type": E5M2}),
    ((f16(6, 32),), {"group_index": COUNTS, "quant_mode": 1, "dst_type": HIF8, "round_mode": 1}),
    (
        (small32(6, 32),),
        {
            "weight_scale": small(3, 32),
            "bias": f16(3, 32),
            "group_index": COUNTS.int(),
            "quant_scale": small(3, 1),
            "quant_offset": f32(3),
            "swiglu_mode": 1,
            "clamp_limit": 2.0,
        },
    ),
    ((bf16(4, 16),), {"quant_scale": small(8), "quant_offset": f32(8)}),
]


def test_graphs_and_meta_tensors_agree_with_eager_execution() -> None:
    run_in_every_mode(operator, CALLS)


def _gated(values: torch.Tensor, options: dict[str, Any]) -> Any:
    if options.get("swiglu_mode"):
        limit = options["clamp_limit"]
        gate, linear = values[..., ::2].clamp(max=limit), values[..., 1::2].clamp(-limit, limit) + 1.0
        factor = np.float32(-1.702)
    else:
        halves = values.chunk(2, -1)
        gate, linear = halves if options.get("activate_left") else halves[::-1]
        factor = np.float32(-1)
    raised = np.exp((gate.numpy() * factor).astype(np.float64)).astype(np.float32)
    return gate.numpy() / (raised + np.float32(1)) * linear.numpy()


def _converted(values: Any, kind: Any) -> Any:
    values, top = np.where(np.isnan(values), np.float32(0), values), TOPS[kind]
    if kind == HIF8:
        return decode_hif8(encode_hif8(torch.from_numpy(values))).double().numpy()
    if kind in NUMPY:
        return np.clip(values, -top, top).astype(NUMPY[kind]).astype(np.float64)
    return np.rint(np.clip(values, -top - 1, top)).astype(np.float64)


def _row(options: dict[str, Any], name: str, group: int, columns: int) -> Any:
    parameter = options.get(name)
    return None if parameter is None else parameter.reshape(-1, columns)[group if "group_index" in options else 0]


@pytest.mark.parametrize("index", range(len(CALLS)))
def test_the_rule_in_numpy(index: int) -> None:
    (x,), options = CALLS[index]
    kind = options.get("dst_type", torch.int8)
    on_npu = {name: value.npu() if isinstance(value, torch.Tensor) else value for name, value in options.items()}
    y, scales = (result.cpu() for result in operator(x.npu(), **on_npu))
    elements = decode_hif8(y).double() if kind == HIF8 else y.float().double()
    rows, width = x.reshape(-1, x.size(-1)), x.size(-1)
    elements, scales = elements.reshape(rows.size(0), width // 2), scales.flatten()
    sizes = COUNTS.tolist() if "group_index" in options else [rows.size(0)]
    scale = options.get("quant_scale")
    columns = 1 if scale is None or scale.numel() == len(sizes) else width // 2
    start = 0
    for group, size in enumerate(sizes):
        part = slice(start, start + size)
        start += size
        values, bias = rows[part], _row(options, "bias", group, width)
        if bias is not None and bias.dtype == torch.int32:
            values, bias = values + bias, None
        values = values.float()
        if x.dtype == torch.int32:
            values = values * _row(options, "weight_scale", group, width)
        if "activation_scale" in options:
            values = values * options["activation_scale"].reshape(-1, 1)[part]
        gated = _gated(values if bias is None else values + bias.float(), options)
        parameter = _row(options, "quant_scale", group, columns)
        if options.get("quant_mode"):
            gated = gated if parameter is None else gated * parameter.numpy()
            expected = np.abs(gated).max(-1) / np.float32(TOPS[kind]) if size else np.zeros(0, np.float32)
            np.testing.assert_array_equal(scales[part].numpy(), expected)
            gated = gated / expected[:, None]
        else:
            assert parameter is not None
            gated = gated / parameter.numpy()
            offset = _row(options, "quant_offset", group, columns)
            gated = gated if offset is None else gated + offset.numpy()
        np.testing.assert_array_equal(elements[part].numpy(), _converted(gated, kind))
    assert not elements[start:].any()


X, S = small32(4, 16), small(16)
WRONG: list[tuple[str, torch.Tensor, dict[str, Any]]] = [
    ("x must be", i8(4, 16), {}),
    ("x.size(-1) must be even", f16(4, 15), {"quant_mode": 1}),
    ("weight_scale must be given", X, {"quant_mode": 1}),
    ("weight_scale must be None", f16(4, 16), {"quant_mode": 1, "weight_scale": S}),
    ("quant_scale must be given", X, {"weight_scale": S}),
    ("quant_offset must be None", X, {"weight_scale": S, "quant_mode": 1, "quant_offset": small(8)}),
    ("quant_scale.size(-1)", X, {"weight_scale": S, "quant_mode": 1, "quant_scale": small(1)}),
    ("quant_scale must be", X, {"weight_scale": S, "quant_scale": f16(8)}),
    ("dst_type must be one of", X, {"weight_scale": S, "quant_mode": 1, "dst_type": 296}),
    ("round_mode", X, {"weight_scale": S, "quant_mode": 1, "dst_type": HIF8}),
    ("round_mode", X, {"weight_scale": S, "quant_mode": 1, "round_mode": 1}),
    ("swiglu_mode", X, {"weight_scale": S, "quant_mode": 1, "swiglu_mode": 2}),
    ("activate_dim 0 is not described", X, {"weight_scale": S, "quant_mode": 1, "activate_dim": 0}),
    ("the groups", X, {"weight_scale": small(1, 16), "quant_mode": 1, "group_index": torch.tensor([2, 2])}),
]


@pytest.mark.parametrize(("message", "x", "options"), WRONG)
def test_wrong_calls_are_refused(message: str, x: torch.Tensor, options: dict[str, Any]) -> None:
    assert_refused(operator, message, (x,), options)


def test_swiglu_quant_is_that_of_other_chips_but_for_rows_of_zeros() -> None:
    x, smooth = f16(4, 16), small(1, 8)
    x[2] = 0
    arguments = {"smooth_scales": smooth.npu(), "quant_mode": 1}
    y, scale = (result.cpu() for result in torch_npu.npu_swiglu_quant(x.npu(), **arguments))
    with chip.use(chip.A2):
        expected, scales = (result.cpu() for result in torch_npu.npu_swiglu_quant(x.npu(), **arguments))
    assert torch.equal(y, expected)
    assert scales[2] == float("inf")
    scales[2] = torch.tensor(127.0) / torch.tensor(1e-8)
    assert torch.equal(scale, scales)
    torch._dynamo.reset()
    compiled = torch.compile(
        lambda x: torch_npu.npu_swiglu_quant(x, **arguments), backend="npu", fullgraph=True, dynamic=True
    )
    with use("eager"):
        assert all(torch.equal(one.cpu(), other) for one, other in zip(compiled(x.npu()), (y, scale), strict=True))
