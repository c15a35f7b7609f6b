"""npu_dynamic_quant and npu_dynamic_quant_asymmetric on Ascend 950: calls, refusals, and the rule in NumPy."""

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
from graph_quant.host.engine import use
from graph_quant.narrow_floats import decode_hif8, encode_hif8

from support.tensors import bf16, f16

HIF8 = 290
TOPS = {torch.int8: 127.0, torch.quint4x2: 7.0, torch.float8_e4m3fn: 448.0, torch.float8_e5m2: 57344.0, HIF8: 32768.0}
SPANS = {torch.int8: 255.0, torch.quint4x2: 15.0}
CALLS: dict[str, tuple[torch.Tensor, dict[str, Any]]] = {
    "int8": (f16(3, 40), {}),
    "float8_e4m3fn": (bf16(2, 3, 40), {"dst_type": torch.float8_e4m3fn}),
    "float8_e5m2 of a tensor": (bf16(3, 40), {"dst_type": 291, "quant_mode": "pertensor"}),
    "HiFloat8, smoothed": (f16(3, 40), {"dst_type": HIF8, "smooth_scales": f16(40)}),
    "HiFloat8 of channels": (f16(3, 40), {"dst_type": HIF8, "quant_mode": "perchannel", "dst_type_max": 15.0}),
    "int4 of channels": (f16(6, 40), {"dst_type": torch.quint4x2, "quant_mode": "perchannel"}),
    "groups": (
        bf16(5, 32),
        {"dst_type": torch.float8_e4m3fn, "smooth_scales": bf16(2, 32), "group_index": torch.tensor([2, 5]).int()},
    ),
    "zeros": (torch.zeros(2, 32).half(), {"dst_type": torch.float8_e4m3fn}),
}


@pytest.fixture(autouse=True)
def on_950() -> Iterator[None]:
    with chip.use(ASCEND_950):
        yield


def on_npu(options: dict[str, Any]) -> dict[str, Any]:
    return {key: value.npu() if isinstance(value, torch.Tensor) else value for key, value in options.items()}


def same_bits(ours: Any, theirs: Any) -> bool:
    pairs = list(zip(ours, theirs, strict=True))
    return all((one.dtype, one.shape) == (other.dtype, other.shape) for one, other in pairs) and all(
        torch.equal(one.cpu().view(torch.uint8), other.cpu().view(torch.uint8)) for one, other in pairs
    )


@pytest.mark.parametrize("operator", [torch_npu.npu_dynamic_quant, torch_npu.npu_dynamic_quant_asymmetric])
@pytest.mark.parametrize("name", CALLS)
def test_graphs_and_meta_tensors_agree_with_eager_execution(name: str, operator: Any) -> None:
    x, options = CALLS[name]
    eager = operator(x.npu(), **on_npu(options))
    meta = {key: value.to("meta") if isinstance(value, torch.Tensor) else value for key, value in options.items()}
    for one, other in zip(eager, operator(x.to("meta"), **meta), strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
    torch._dynamo.reset()
    npu_options = on_npu(options)
    with use("eager"):
        compiled = torch.compile(lambda x: operator(x, **npu_options), backend="npu", fullgraph=True)
        assert same_bits(compiled(x.npu()), eager)


@pytest.mark.parametrize("name", ["float8_e4m3fn", "HiFloat8, smoothed"])
def test_inductor_and_captured_graphs_agree_with_eager_execution(name: str) -> None:
    x, options = CALLS[name]
    npu, npu_options = x.npu(), on_npu(options)
    eager = torch_npu.npu_dynamic_quant(npu, **npu_options)
    torch._dynamo.reset()
    compiled = torch.compile(
        lambda x: torch_npu.npu_dynamic_quant(x, **npu_options), backend="npu", fullgraph=True, dynamic=True
    )
    assert same_bits(compiled(npu), eager)
    graph = torch.npu.NPUGraph()  # type: ignore[attr-defined]
    with torch.npu.graph(graph):  # type: ignore[attr-defined]
        captured = torch_npu.npu_dynamic_quant(npu, **npu_options)
    graph.replay()
    assert same_bits(captured, eager)


WRONG = [
    ("dst_type must be one of", {"dst_type": torch.uint8}),
    ("dst_type must be one of", {"dst_type": 296}),
    ("dst_type_max must be at most 32768", {"dst_type": HIF8, "dst_type_max": 40000.0}),
    ("dst_type_max must be 0 or", {"dst_type": HIF8, "dst_type_max": -1.0}),
    ("quant_mode", {"quant_mode": "pergroup"}),
]


@pytest.mark.parametrize(("message", "options"), WRONG)
def test_wrong_calls_are_refused(message: str, options: dict[str, Any]) -> None:
    for device in ("npu", "meta"):
        with pytest.raises(Refusal, match=message):
            torch_npu.npu_dynamic_quant(f16(2, 16).to(device), **options)


def test_other_chips_refuse_narrow_floats() -> None:
    with chip.use(chip.A2), pytest.raises(Refusal, match="dst_type must be one of"):
        torch_npu.npu_dynamic_quant(f16(2, 16).npu(), dst_type=torch.float8_e4m3fn)


def _converted(values: Any, kind: Any) -> Any:
    """float64 values that a conversion of float32 gives; NaN becomes zero."""
    values = np.where(np.isnan(values), np.float32(0), values)
    top = TOPS[kind]
    if kind == HIF8:
        return decode_hif8(encode_hif8(torch.from_numpy(values))).double().numpy()
    clipped = np.clip(values, -top - (kind not in (torch.float8_e4m3fn, torch.float8_e5m2)), top)
    if kind in (torch.int8, torch.quint4x2):
        return np.rint(clipped).astype(np.float64)
    target = ml_dtypes.float8_e4m3fn if kind == torch.float8_e4m3fn else ml_dtypes.float8_e5m2
    return clipped.astype(target).astype(np.float64)


def _elements(y: torch.Tensor, kind: Any) -> Any:
    if kind == HIF8:
        return decode_hif8(y.cpu()).double().numpy()
    return (int4.unpack(y.cpu()) if kind == torch.quint4x2 else y.cpu().float()).double().numpy()


@pytest.mark.parametrize("kind", TOPS, ids=str)
@pytest.mark.parametrize(("mode", "axes"), [("pertoken", -1), ("perchannel", -2), ("pertensor", None)])
def test_the_rule_in_numpy(mode: str, axes: Any, kind: Any) -> None:
    x, smooth = bf16(4, 6, 48), bf16(6 if mode == "perchannel" else 48)
    options = {"dst_type": kind, "quant_mode": mode, "smooth_scales": smooth.npu()}
    shaped = smooth.float().numpy()[:, None] if mode == "perchannel" else smooth.float().numpy()
    values = x.float().numpy() * shaped
    top = np.float32(TOPS[kind])
    scale = np.abs(values).max(axes, keepdims=True) * (np.float32(1) / top)
    y, scales = torch_npu.npu_dynamic_quant(x.npu(), **options)
    np.testing.assert_array_equal(scales.cpu().numpy().reshape(-1), scale.reshape(-1))
    np.testing.assert_array_equal(_elements(y, kind), _converted(values / scale, kind))
    span = np.float32(SPANS.get(kind, 2 * TOPS[kind]))
    largest, smallest = values.max(axes, keepdims=True), values.min(axes, keepdims=True)
    scale = (largest - smallest) * (np.float32(1) / span)
    offset = top - largest / scale
    y, scales, offsets = torch_npu.npu_dynamic_quant_asymmetric(x.npu(), **options)
    np.testing.assert_array_equal(scales.cpu().numpy().reshape(-1), scale.reshape(-1))
    np.testing.assert_array_equal(offsets.cpu().numpy().reshape(-1), offset.reshape(-1))
    np.testing.assert_array_equal(_elements(y, kind), _converted(values / scale + offset, kind))


def test_dst_type_max_is_for_hifloat8_alone() -> None:
    x = f16(2, 16).npu()
    for kind, divisor in ((HIF8, 15.0), (torch.float8_e4m3fn, 448.0)):
        _, scale = torch_npu.npu_dynamic_quant(x, dst_type=kind, dst_type_max=15.0)
        expected = x.cpu().float().abs().amax(-1).numpy() * (np.float32(1) / np.float32(divisor))
        np.testing.assert_array_equal(scale.cpu().numpy(), expected)


def test_a_linear_of_float8_is_close() -> None:
    x, weight = bf16(4, 64), bf16(8, 64)
    x8, x_scale = torch_npu.npu_dynamic_quant(x.npu(), dst_type=torch.float8_e4m3fn)
    w8, w_scale = torch_npu.npu_dynamic_quant(weight.npu(), dst_type=torch.float8_e4m3fn)
    options = {"pertoken_scale": x_scale, "output_dtype": torch.bfloat16}
    y = torch_npu.npu_quant_matmul(x8, w8.t(), w_scale, **options).cpu().float()
    exact = x.float() @ weight.float().t()
    assert ((y - exact).norm() / exact.norm()).item() < 0.05
