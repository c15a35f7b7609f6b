"""npu_dynamic_mx_quant on Ascend 950: calls, refusals, and the rule of its kernel once more in NumPy."""

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
from graph_quant.narrow_floats import FORMATS, find_format, unpack_pairs
from graph_quant.reference.quant.mx_blocks import dequantise
from hypothesis import given
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode

from support.daily_sample import daily_sample
from support.lowering import lower, node, types
from support.tensors import bf16, f16, f32, f64

E5M2, E4M3, E2M1, E1M2 = 291, 292, 296, 297
TYPES = {E5M2: ml_dtypes.float8_e5m2, E4M3: ml_dtypes.float8_e4m3fn, E2M1: ml_dtypes.float4_e2m1fn}
EMAX = {E5M2: 15, E4M3: 8, E2M1: 2, E1M2: 0}
LARGEST = {E5M2: 57344.0, E4M3: 448.0, E2M1: 6.0, E1M2: 1.75}


@pytest.fixture(autouse=True)
def on_950() -> Iterator[None]:
    with chip.use(ASCEND_950):
        yield


def quantise(x: torch.Tensor, **options: Any) -> tuple[torch.Tensor, torch.Tensor]:
    result: tuple[torch.Tensor, torch.Tensor] = torch_npu.npu_dynamic_mx_quant(x, **options)
    return result


def same_bits(ours: Any, theirs: Any) -> bool:
    pairs = list(zip(ours, theirs, strict=True))
    return all(one.dtype == other.dtype and one.shape == other.shape for one, other in pairs) and all(
        torch.equal(one.cpu().view(torch.uint8), other.cpu().view(torch.uint8)) for one, other in pairs
    )


CALLS = {
    "the default, float4_e2m1": (f16(3, 64), {}),
    "float8_e4m3fn": (bf16(3, 64), {"dst_type": E4M3}),
    "torch.float8_e5m2": (f32(2, 3, 40), {"dst_type": torch.float8_e5m2}),
    "short blocks": (f16(3, 10), {"dst_type": E4M3}),
    "an odd number of blocks": (f16(2, 96), {"dst_type": E1M2, "round_mode": "round"}),
    "the first axis": (bf16(70, 6), {"axis": 0, "dst_type": E2M1, "round_mode": "floor"}),
    "a middle axis": (f16(2, 65, 4), {"axis": -2, "dst_type": E5M2, "scale_alg": 1}),
    "wide blocks": (f16(2, 300), {"block_size": 128, "dst_type": E4M3, "scale_alg": 1, "max_low_bound": 0.5}),
    "by mantissa": (f32(2, 64), {"scale_alg": 2}),
    "by mantissa above 7": (bf16(2, 64), {"scale_alg": 2, "dst_type_max": 7.0}),
    "over another number": (f16(2, 64), {"scale_alg": 2, "dst_type_max": 9.5, "round_mode": "round"}),
    "one dimension, no algorithm": (bf16(64), {"scale_alg": None}),
    "views": (f16(64, 4).t(), {"dst_type": E4M3}),
}


@pytest.mark.parametrize("name", CALLS)
def test_meta_and_fake_tensors_have_the_form_of_results(name: str) -> None:
    x, options = CALLS[name]
    found = quantise(x.npu(), **options)
    meta = quantise(x.to("meta"), **options)
    with FakeTensorMode() as mode:
        fake = quantise(mode.from_tensor(x), **options)
    for one, *others in zip(found, meta, fake, strict=True):
        assert all((one.dtype, one.shape, one.stride()) == (x.dtype, x.shape, x.stride()) for x in others)


# Inductor compiles each of them for half a minute.
IN_GRAPHS = [(name, "eager") for name in CALLS] + [(name, "inductor") for name in daily_sample(list(CALLS), 2)]


@pytest.mark.parametrize(("name", "engine"), IN_GRAPHS)
def test_graphs_have_the_bits_of_eager_execution(name: str, engine: str) -> None:
    x, options = CALLS[name]
    torch._dynamo.reset()
    with use(engine):
        compiled = torch.compile(lambda x: quantise(x, **options), backend="npu", fullgraph=True)
        assert same_bits(compiled(x.npu()), quantise(x.npu(), **options))


@pytest.mark.parametrize("name", ["float8_e4m3fn", "the first axis", "by mantissa"])
def test_captured_and_dynamic_graphs_have_the_bits_of_eager_execution(name: str) -> None:
    x, options = CALLS[name]
    npu = x.npu()
    graph = torch.npu.NPUGraph()  # type: ignore[attr-defined]
    with torch.npu.graph(graph):  # type: ignore[attr-defined]
        captured = quantise(npu, **options)
    graph.replay()
    assert same_bits(captured, quantise(npu, **options))
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: quantise(x, **options), backend="npu", fullgraph=True, dynamic=True)
    for sample in (npu, torch.cat([npu, npu])):
        assert same_bits(compiled(sample), quantise(sample, **options))


def test_float4_is_packed_by_nodes_with_its_dtype() -> None:
    graph = lower(lambda x: quantise(x, axis=0, block_size=64), f16(128, 8))
    assert [kind for kind in types(graph) if kind != "Const"] == ["DynamicMxQuant", "Reshape", "Bitcast", "Bitcast"]
    attributes = node(graph, "DynamicMxQuant").attr
    assert (attributes["axis"].i, attributes["blocksize"].i, attributes["dst_type"].i) == (0, 64, 40)
    assert node(graph, "Reshape").output_desc[0].dtype == node(graph, "DynamicMxQuant").output_desc[0].dtype == 39


X = f16(2, 64)
WRONG = [
    ("input", f64(2, 64), {}),
    ("input", torch.ones(()).half(), {}),
    ("axis", X, {"axis": 2}),
    ("axis", X, {"axis": -3}),
    ("block_size", X, {"block_size": 0}),
    ("block_size", X, {"block_size": 48}),
    ("block_size", X, {"block_size": 1056}),
    ("block_size", f32(2, 64), {"block_size": 64}),
    ("input.size", f32(2, 16), {}),
    ("dst_type", X, {"dst_type": 290}),
    ("dst_type", X, {"dst_type": 1}),
    ("round_mode", X, {"dst_type": E4M3, "round_mode": "floor"}),
    ("round_mode", X, {"round_mode": "ceil"}),
    ("scale_alg", X, {"scale_alg": 1}),
    ("scale_alg", X, {"dst_type": E4M3, "scale_alg": 2}),
    ("scale_alg", X, {"dst_type": E1M2, "scale_alg": 2}),
    ("scale_alg", X, {"scale_alg": 3}),
    ("block_size", X, {"scale_alg": 2, "block_size": 64}),
    ("axis", X, {"scale_alg": 2, "axis": 0}),
    ("dst_type_max", X, {"dst_type": E4M3, "dst_type_max": 6.0}),
    ("dst_type_max", X, {"dst_type_max": 5.0}),
    ("dst_type_max", X, {"scale_alg": 2, "dst_type_max": float("nan")}),
    ("max_low_bound", X, {"max_low_bound": 1.0}),
    ("max_low_bound", X, {"dst_type": E4M3, "scale_alg": 1, "max_low_bound": -1.0}),
    ("input.size(-1)", f16(2, 63), {}),
]


@pytest.mark.parametrize(("argument", "x", "options"), WRONG)
def test_wrong_calls_are_refused_eagerly_and_on_meta_tensors(
    argument: str, x: torch.Tensor, options: dict[str, Any]
) -> None:
    for device in ("npu", "cpu", "meta"):
        with pytest.raises(Refusal, match="npu_dynamic_mx_quant: ") as refused:
            quantise(x.to(device), **options)
        assert f": {argument}" in str(refused.value)


def _scale_code(part: np.ndarray, target: int, algorithm: int, most: float, bound: float) -> tuple[int, bool]:  # type: ignore[type-arg]
    """The code of a block's scale, and whether its elements become zeros; -1 for a block that is not finite."""
    if not np.isfinite(part.astype(np.float32)).all():
        return 255, True
    largest = np.abs(part).max()
    if largest == 0:
        return 0, True
    if algorithm == 1 or (algorithm == 2 and most not in (0, 6, 7)):
        inverse = np.float32(1.0 / (most or LARGEST[target]))
        share = max(np.float32(largest), np.float32(bound)) * inverse
        mantissa, exponent = np.frexp(share)
        if share >= np.float32(2.0**-126):
            return int(exponent) + 126 + int(mantissa != 0.5), False
        return int(algorithm == 1 and share > np.float32(2.0**-127)), False
    whole = np.floor(np.log2(largest.astype(np.float64)))
    if largest.dtype != np.float16 and whole < -126:
        return 0, True
    code = int(whole) + 127 - EMAX[target]
    if algorithm == 2 and code >= 0:
        short = largest.astype(ml_dtypes.bfloat16) if part.dtype == np.float16 else largest
        if part.dtype == np.float32:
            short = (largest.view(np.uint32) & 0xFFFF0000).astype(np.uint32).view(np.float32)
        fraction = float(short) / 2.0 ** np.floor(np.log2(float(short)))
        carried = int(np.floor(np.log2(float(short)))) + 127 - EMAX[target]
        code = carried + (fraction > (1.75 if most == 7 else 1.5))
    return max(code, 0), code <= 0


def _element(value: float, target: int, mode: str) -> float:
    """One element on the grid of a format, saturated."""
    step = 0.25
    if target != E1M2:
        exponent = max(int(np.floor(np.log2(abs(value)))) if value else 0, {E5M2: -14, E4M3: -6, E2M1: 0}[target])
        step = 2.0 ** (exponent - {E5M2: 2, E4M3: 3, E2M1: 1}[target])
    steps = value / step
    whole = {"rint": np.rint(steps), "floor": np.floor(steps), "round": np.sign(value) * np.floor(abs(steps) + 0.5)}[
        mode
    ]
    return float(np.clip(whole * step, -LARGEST[target], LARGEST[target]))


def _expected(x: np.ndarray, target: int, mode: str, algorithm: int, most: float, bound: float) -> Any:  # type: ignore[type-arg]
    """Values and scale codes of rows whose blocks run along the last axis."""
    values, codes = np.zeros(x.shape), np.zeros((len(x), -(-x.shape[1] // 64) * 2), np.uint8)
    for row, numbers in enumerate(x):
        for block in range(-(-x.shape[1] // 32)):
            part = slice(32 * block, 32 * block + 32)
            code, is_zero = _scale_code(numbers[part], target, algorithm, most, bound)
            codes[row, block] = code
            if not is_zero:
                scaled = numbers[part].astype(np.float64) * 2.0 ** (127 - code)
                values[row, part] = [_element(value, target, mode) for value in scaled]
    return values, codes


@st.composite
def with_data(draw: st.DrawFn) -> tuple[torch.Tensor, dict[str, Any]]:
    torch.manual_seed(draw(st.integers(0, 2**16)))
    target = draw(st.sampled_from([E5M2, E4M3, E2M1, E1M2]))
    is_eight = target in (E5M2, E4M3)
    options: dict[str, Any] = {"dst_type": target}
    options["round_mode"] = "rint" if is_eight else draw(st.sampled_from(["rint", "round", "floor"]))
    algorithms = {E2M1: [0, 2], E1M2: [0]}
    options["scale_alg"] = draw(st.sampled_from(algorithms.get(target, [0, 1])))
    if options["scale_alg"] == 2:
        options["dst_type_max"] = draw(st.sampled_from([0.0, 6.0, 7.0, 8.0, 12.0]))
    if options["scale_alg"] == 1:
        options["max_low_bound"] = draw(st.sampled_from([0.0, 0.75]))
    dtype = draw(st.sampled_from([torch.float16, torch.bfloat16, torch.float32]))
    widest = 14 if dtype == torch.float16 else 120
    magnitudes = 2.0 ** torch.randint(-widest, widest, (4, 3, 1)).double()
    x = (torch.randn(4, 3, 32).double() * magnitudes).flatten(1)[:, : draw(st.sampled_from([96, 70, 64, 32]))].to(dtype)
    x[0, :32] = 0
    if draw(st.booleans()):
        x[1, draw(st.integers(0, 31))] = draw(st.sampled_from([torch.inf, -torch.inf, torch.nan]))
    # Elements on the midpoints between values of the formats, below a largest one that fixes the scale.
    x[2, :32] = torch.arange(32).to(dtype) / 8
    x[2, 0] = draw(st.sampled_from([4.0, 5.9, 6.0, 6.01, 7.0, 7.03, 7.9]))
    return x, options


@given(with_data())
def test_the_rule_in_numpy(call: tuple[torch.Tensor, dict[str, Any]]) -> None:
    x, options = call
    y, scales = quantise(x, **options)
    rows = x.view(torch.int16).numpy().view(ml_dtypes.bfloat16) if x.dtype == torch.bfloat16 else x.numpy()
    settings = (options["round_mode"], options["scale_alg"], options.get("dst_type_max", 0.0))
    values, codes = _expected(rows, options["dst_type"], *settings, options.get("max_low_bound", 0.0))
    np.testing.assert_array_equal(scales.flatten(1).numpy(), codes)
    target = find_format(options["dst_type"])
    assert target is not None
    elements = y if target.dtype is not None else unpack_pairs(y)
    ones = torch.full_like(scales, 127)
    np.testing.assert_array_equal(dequantise(elements, ones, -1, target).numpy(), values)


@pytest.mark.parametrize("axis", [0, 1, 2, -2])
def test_other_axes_are_the_last_one_with_pairs_of_scales_last(axis: int) -> None:
    x = f16(70, 66, 68)
    y, scales = quantise(x, axis=axis, dst_type=E4M3)
    moved_y, moved_scales = quantise(x.movedim(axis, -1).contiguous(), dst_type=E4M3)
    assert torch.equal(y.view(torch.uint8), moved_y.view(torch.uint8).movedim(-1, axis))
    position = axis % 3
    assert torch.equal(scales, moved_scales.movedim(-2, position))
    assert scales.shape[position] == 2
    assert scales.movedim(position, -2)[..., -1, 1].unique().tolist() == [0]


def test_tiny_blocks_are_flushed_and_signs_kept() -> None:
    tiny = torch.tensor([[1.0, -1.0] * 16]).bfloat16() * 2.0**-120
    y, scales = quantise(tiny, dst_type=E4M3)
    assert scales.flatten().tolist() == [0, 0]
    assert y.view(torch.uint8).flatten().unique().tolist() == [0, 0x80]
    y, scales = quantise(tiny, dst_type=E4M3, scale_alg=1)
    assert scales.flatten().tolist() == [0, 0]
    assert y.float().abs().unique().tolist() == [128.0]


def test_every_format_comes_back_within_a_step() -> None:
    x = f32(4, 128)
    for number, target in ((E5M2, FORMATS[1]), (E4M3, FORMATS[0]), (E2M1, FORMATS[2]), (E1M2, FORMATS[3])):
        y, scales = quantise(x, dst_type=number)
        elements = y if target.dtype is not None else unpack_pairs(y)
        error = (dequantise(elements, scales, -1, target) - x).abs().unflatten(-1, (-1, 32))
        largest = x.abs().unflatten(-1, (-1, 32)).amax(-1, keepdim=True)
        assert bool((error <= largest * 2.0**-target.mantissa_bits).all())
