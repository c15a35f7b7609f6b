"""npu_grouped_matmul_swiglu_quant_v2 on Ascend 950: calls, refusals, and its forms once more in NumPy."""

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
from graph_quant.host.engine import use
from graph_quant.narrow_floats import decode_hif8, encode_hif8

from operators.matmul.test_grouped_matmul_950 import (
    E2M1,
    E8M0,
    HIF8,
    HIFLOAT,
    as_array,
    codes,
    e4,
    e5,
    fp4,
    hif8,
    on,
    state_mx,
)
from support.arrays import exp
from support.tensors import bf16, f16, f32, i8

torch.manual_seed(1)
GROUPS = {"group_list": torch.tensor([4, 4, 7])}
COUNTS = {"group_list": torch.tensor([4, 0, 3]), "group_list_type": 1}
MX = {"dequant_mode": 2, "quant_mode": 2, "weight_scale_dtype": E8M0, "x_scale_dtype": E8M0, **GROUPS}
FP4 = {"x_dtype": E2M1, "weight_dtype": E2M1, **MX}
E4, E5 = 24, 23
SCALES = codes(3, 2, 76, 2), codes(9, 2, 2)


@pytest.fixture(autouse=True)
def on_950() -> Iterator[None]:
    with chip.use(ASCEND_950):
        yield


# x, weight, weight_scale, x_scale and options.
CALLS: dict[str, tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, dict[str, Any]]] = {
    "MX of float8": (e4(9, 100), e5(3, 100, 76), *SCALES, {"quant_dtype": E4, **MX}),
    "MX of float8, transposed, to e5m2": (
        e4(9, 100),
        e4(3, 76, 100).transpose(1, 2),
        codes(3, 76, 2, 2).transpose(1, 2),
        SCALES[1],
        {"quant_dtype": E5, **MX, **COUNTS},
    ),
    "MX of float4": (
        fp4(9, 50),
        fp4(3, 76, 50).transpose(1, 2),
        codes(3, 76, 2, 2).transpose(1, 2),
        SCALES[1],
        {"quant_dtype": E2M1, **FP4},
    ),
    "MX of float4, to e4m3": (fp4(9, 50), fp4(3, 100, 38), *SCALES, {"quant_dtype": E4, **FP4}),
    "float8 of tokens": (e4(9, 40), e4(3, 40, 12), f32(3, 12), f32(9), {"quant_dtype": E4, **GROUPS}),
    "float8 of tokens, by bfloat16": (
        e5(9, 40),
        e4(3, 12, 40).transpose(1, 2),
        bf16(3, 12),
        f32(9),
        {"quant_dtype": E5, "dequant_dtype": 15, **COUNTS},
    ),
    "HiFloat8 of tokens": (
        hif8(9, 40),
        hif8(3, 40, 12),
        f32(3, 12),
        f32(9),
        {"quant_dtype": HIF8, **HIFLOAT, **GROUPS},
    ),
    "int8 of tokens, by float16": (i8(9, 40), i8(3, 40, 12), f16(3, 12) * 1e-4, f32(9), {"dequant_dtype": 5, **GROUPS}),
}


def call(
    x: torch.Tensor, weight: torch.Tensor, weight_scale: torch.Tensor, x_scale: torch.Tensor, options: dict[str, Any]
) -> tuple[torch.Tensor, torch.Tensor]:
    y, scale = torch_npu.npu_grouped_matmul_swiglu_quant_v2(x, [weight], [weight_scale], x_scale, **options)
    return y, scale


def as_bytes(results: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
    return [result.cpu().contiguous().view(torch.uint8) for result in results]


@pytest.mark.parametrize("name", CALLS)
def test_graphs_and_meta_tensors_agree_with_eager_execution(name: str) -> None:
    *tensors, options = CALLS[name]
    inputs = *(tensor.npu() for tensor in tensors), on("npu", options)
    eager = call(*inputs)
    meta = call(*(tensor.to("meta") for tensor in tensors), on("meta", options))
    assert [(one.shape, one.dtype) for one in meta] == [(one.shape, one.dtype) for one in eager]
    torch._dynamo.reset()
    with use("eager"):
        compiled = torch.compile(call, backend="npu", fullgraph=True)(*inputs)
    assert all(map(torch.equal, as_bytes(compiled), as_bytes(eager)))


def test_inductor_and_captured_graphs_agree_with_eager_execution() -> None:
    *tensors, options = CALLS["MX of float4"]
    inputs = *(tensor.npu() for tensor in tensors), on("npu", options)
    eager = call(*inputs)
    torch._dynamo.reset()
    compiled = torch.compile(call, backend="npu", fullgraph=True, dynamic=True)(*inputs)
    assert all(map(torch.equal, as_bytes(compiled), as_bytes(eager)))
    graph = torch.npu.NPUGraph()  # type: ignore[attr-defined]
    with torch.npu.graph(graph):  # type: ignore[attr-defined]
        captured = call(*inputs)
    graph.replay()
    assert all(map(torch.equal, as_bytes(captured), as_bytes(eager)))


KINDS = {E4: ml_dtypes.float8_e4m3fn, E5: ml_dtypes.float8_e5m2, E2M1: ml_dtypes.float4_e2m1fn}
LARGEST = {E4: (448.0, 8), E5: (57344.0, 15), E2M1: (6.0, 2)}


def quantise_mx(gate: Any, kind: int) -> tuple[Any, Any]:
    """Codes of bfloat16 values and of their scales in blocks of 32, by the formulas of the OCP format."""
    padded = np.zeros((len(gate), -(-gate.shape[1] // 64) * 64), np.float32)
    padded[:, : gate.shape[1]] = gate
    blocks = padded.reshape(len(gate), -1, 32)
    largest = np.abs(blocks).max(-1)
    top, emax = LARGEST[kind]
    shared = np.where(
        largest > 0, np.clip(np.floor(np.log2(np.where(largest > 0, largest, 1))) - emax + 127, 0, 254), 0
    )
    values = np.clip(blocks * np.exp2(127 - shared)[..., None], -top, top).astype(np.float32)
    y = values.astype(KINDS[kind]).view(np.uint8).reshape(len(gate), -1)[:, : gate.shape[1]]
    return (y[:, ::2] | (y[:, 1::2] << 4)) if kind == E2M1 else y, shared.astype(np.uint8).reshape(len(gate), -1, 2)


@pytest.mark.parametrize("name", CALLS)
def test_statement(name: str) -> None:
    x, weight, weight_scale, x_scale, options = CALLS[name]
    y, scale = call(*(tensor.npu() for tensor in (x, weight, weight_scale, x_scale)), on("npu", options))
    one = as_array(x, options.get("x_dtype"))
    other = as_array(weight, options.get("weight_dtype"), along=-2 if weight.stride(-2) == 1 else -1)
    kind = options.get("quant_dtype", 1)
    for group, rows in ((0, slice(0, 4)), (2, slice(4, 7))):
        if "MX" in name:
            values = state_mx(one[rows], other[group], x_scale[rows], weight_scale[group])
        else:
            values = np.float32(one[rows] @ other[group]) * weight_scale[group].float().numpy()
            values = values * x_scale[rows, None].numpy()
        left, right = np.split(values, 2, 1)
        gate = left / (np.float32(1) + exp(-left)) * right
        if "MX" in name:
            wanted, shared = quantise_mx(gate.astype(ml_dtypes.bfloat16).astype(np.float32), kind)
            assert np.array_equal(y[rows].cpu().view(torch.uint8).numpy(), wanted)
            assert np.array_equal(scale[rows].cpu().view(torch.uint8).numpy(), shared)
            continue
        between = {15: ml_dtypes.bfloat16, 5: np.float16}.get(options.get("dequant_dtype", 6), np.float32)
        gate = gate.astype(between).astype(np.float32)
        top = {1: 127.0, HIF8: 32768.0}.get(kind) or LARGEST[kind][0]
        steps = np.abs(gate).max(1) * np.float32(1 / top)
        assert np.array_equal(scale[rows].cpu().numpy(), steps)
        quotient = gate / steps[:, None]
        if kind == 1:
            assert np.array_equal(y[rows].cpu().numpy(), np.rint(quotient).astype(np.int8))
        elif kind == HIF8:
            stored = decode_hif8(encode_hif8(torch.from_numpy(quotient)))
            assert torch.equal(decode_hif8(y[rows].cpu()), stored)
        else:
            assert np.array_equal(y[rows].cpu().view(torch.uint8).numpy(), quotient.astype(KINDS[kind]).view(np.uint8))
    assert not y[7:].cpu().view(torch.uint8).any()


def test_a_row_of_zeros_is_nan_in_float8_and_zero_in_mx_and_int8() -> None:
    for name, expected in (("float8 of tokens", 0x7F), ("int8 of tokens, by float16", 0), ("MX of float8", 0)):
        x, weight, weight_scale, x_scale, options = CALLS[name]
        zeros = torch.zeros_like(x.view(torch.uint8)).view(x.dtype)
        y, scale = call(*(one.npu() for one in (zeros, weight, weight_scale, x_scale)), on("npu", options))
        assert not scale.view(torch.uint8).any()
        assert (y[:4].view(torch.uint8) == expected).all()


X, W = e4(9, 64), e4(3, 64, 12)
TOKENS = {"quant_dtype": E4, **GROUPS}
PLAIN = (X, W, f32(3, 12), f32(9))
BLOCKS = (X, W, codes(3, 1, 12, 2), codes(9, 1, 2))
FOURS = (fp4(9, 32), fp4(3, 64, 6), codes(3, 1, 12, 2), codes(9, 1, 2))
WRONG: list[tuple[str, tuple[torch.Tensor, ...], dict[str, Any]]] = [
    ("quant_dtype", PLAIN, GROUPS),
    ("quant_dtype", FOURS, {**FP4, "quant_dtype": 1}),
    ("dequant_mode and quant_mode", PLAIN, {**TOKENS, "dequant_mode": 2}),
    ("dequant_mode and quant_mode", PLAIN, {**TOKENS, "dequant_mode": 1, "quant_mode": 1}),
    ("dequant_dtype", BLOCKS, {**MX, "quant_dtype": E4, "dequant_dtype": 15}),
    ("dequant_dtype", PLAIN, {**TOKENS, "dequant_dtype": 1}),
    ("weight_scale_dtype", BLOCKS, {**MX, "quant_dtype": E4, "weight_scale_dtype": None}),
    ("weight_scale_dtype", BLOCKS, {**TOKENS, "weight_scale_dtype": E8M0, "x_scale_dtype": E8M0}),
    ("weight_scale.size(1)", (*BLOCKS[:2], codes(3, 2, 12, 2), codes(9, 1, 2)), {**MX, "quant_dtype": E4}),
    ("x_scale.size(0)", (*BLOCKS[:3], codes(8, 1, 2)), {**MX, "quant_dtype": E4}),
    ("weight_scale must be", (*PLAIN[:2], f16(3, 12), f32(9)), TOKENS),
    ("weight_scale.size(1)", (*PLAIN[:2], f32(3, 6), f32(9)), TOKENS),
    ("x_scale.size(0)", (*PLAIN[:3], f32(8)), TOKENS),
    ("n must be even", (X, e4(3, 64, 11), f32(3, 11), f32(9)), TOKENS),
    (
        "n must be a multiple of 4",
        (FOURS[0], fp4(3, 64, 5), codes(3, 1, 10, 2), codes(9, 1, 2)),
        {**FP4, "quant_dtype": E4},
    ),
    ("k of weight[0]", (X, e4(3, 32, 12), f32(3, 12), f32(9)), TOKENS),
    ("group_list.size(0)", PLAIN, {**TOKENS, "group_list": torch.tensor([1, 2, 3, 4])}),
    ("group_list_type", PLAIN, {**TOKENS, "group_list_type": 2}),
    ("tuning_config", PLAIN, {**TOKENS, "tuning_config": [1]}),
    ("smooth_scale", PLAIN, {**TOKENS, "smooth_scale": f32(3)}),
    ("bias", PLAIN, {**TOKENS, "bias": f32(3, 12)}),
    ("x must be float8 or float4", (hif8(9, 64), hif8(3, 64, 12), *BLOCKS[2:]), {**MX, **HIFLOAT, "quant_dtype": HIF8}),
    ("dequant_mode must be 2", (*FOURS[:2], f32(3, 12), f32(9)), {**TOKENS, "x_dtype": E2M1, "weight_dtype": E2M1}),
]


@pytest.mark.parametrize(("message", "tensors", "options"), WRONG)
def test_wrong_calls_are_refused(message: str, tensors: tuple[torch.Tensor, ...], options: dict[str, Any]) -> None:
    with pytest.raises(Refusal, match="npu_grouped_matmul_swiglu_quant_v2: ") as refused:
        call(*(tensor.npu() for tensor in tensors), on("npu", options))
    assert message in str(refused.value)


def test_weights_in_fractal_nz_have_whole_blocks() -> None:
    x, weight, *scales = (tensor.npu() for tensor in (X, e4(3, 64, 128), codes(3, 1, 128, 2), codes(9, 1, 2)))
    options = on("npu", {**MX, "quant_dtype": E4})
    plain = call(x, weight, *scales, options)
    blocks = torch_npu.npu_format_cast(weight, 29)
    assert all(map(torch.equal, as_bytes(call(x, blocks, *scales, options)), as_bytes(plain)))
    with pytest.raises(Refusal, match="quant_dtype must be float8_e4m3fn where"):
        call(x, blocks, *scales, {**options, "quant_dtype": E5})
    narrow = torch_npu.npu_format_cast(W.npu(), 29)
    with pytest.raises(Refusal, match="n must be a multiple of 64"):
        call(x, narrow, *(tensor.npu() for tensor in BLOCKS[2:]), options)
