"""npu_dynamic_mx_quant_with_dual_axis on Ascend 950: calls, refusals, and what it shares with npu_dynamic_mx_quant."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch_npu
from graph_quant import chip
from graph_quant.chip import ASCEND_950
from graph_quant.destination import Refusal
from graph_quant.host.engine import use
from graph_quant.narrow_floats import E4M3 as E4M3_FORMAT
from graph_quant.reference.quant.mx_blocks import dequantise

from support.daily_sample import daily_sample
from support.lowering import lower, types
from support.tensors import bf16, f16, f32

E5M2, E4M3, E2M1, E1M2 = 291, 292, 296, 297


@pytest.fixture(autouse=True)
def on_950() -> Iterator[None]:
    with chip.use(ASCEND_950):
        yield


def quantise(x: torch.Tensor, **options: Any) -> tuple[torch.Tensor, ...]:
    results: tuple[torch.Tensor, ...] = torch_npu.npu_dynamic_mx_quant_with_dual_axis(x, **options)
    return results


def same_bits(ours: Any, theirs: Any) -> bool:
    pairs = list(zip(ours, theirs, strict=True))
    return all((one.dtype, one.shape) == (other.dtype, other.shape) for one, other in pairs) and all(
        torch.equal(one.cpu().view(torch.uint8), other.cpu().view(torch.uint8)) for one, other in pairs
    )


CALLS = {
    "the default, float4_e2m1": (f16(70, 64), {}),
    "float8_e4m3fn": (bf16(2, 33, 40), {"dst_type": E4M3, "scale_alg": 1}),
    "float4_e1m2, down": (bf16(3, 10), {"dst_type": E1M2, "round_mode": "floor"}),
    "by mantissa": (f16(40, 36), {"scale_alg": 2, "dst_type_max": 7.0}),
    "over another number": (bf16(40, 36), {"scale_alg": 2, "dst_type_max": 9.0}),
}


# Inductor compiles each of them for half a minute.
IN_GRAPHS = [(name, "eager") for name in CALLS] + [(name, "inductor") for name in daily_sample(list(CALLS))]


@pytest.mark.parametrize(("name", "engine"), IN_GRAPHS)
def test_graphs_and_meta_tensors_agree_with_eager_execution(name: str, engine: str) -> None:
    x, options = CALLS[name]
    eager = quantise(x.npu(), **options)
    for one, other in zip(eager, quantise(x.to("meta"), **options), strict=True):
        assert (one.shape, one.dtype, one.stride()) == (other.shape, other.dtype, other.stride())
    torch._dynamo.reset()
    with use(engine):
        compiled = torch.compile(lambda x: quantise(x, **options), backend="npu", fullgraph=True, dynamic=True)
        assert same_bits(compiled(x.npu()), eager)


def test_captured_graphs_agree_with_eager_execution() -> None:
    npu = CALLS["float8_e4m3fn"][0].npu()
    graph = torch.npu.NPUGraph()  # type: ignore[attr-defined]
    with torch.npu.graph(graph):  # type: ignore[attr-defined]
        captured = quantise(npu, dst_type=E4M3)
    graph.replay()
    assert same_bits(captured, quantise(npu, dst_type=E4M3))


def test_one_node_and_bitcasts() -> None:
    graph = lower(lambda x: quantise(x), f16(64, 64))
    kinds = [kind for kind in types(graph) if kind not in ("Const", "Data")]
    assert kinds.count("DynamicMxQuantWithDualAxis") == 1
    assert kinds.count("Bitcast") == 4


@pytest.mark.parametrize("name", [name for name in CALLS if name != "by mantissa" and name != "over another number"])
def test_both_axes_are_those_of_npu_dynamic_mx_quant(name: str) -> None:
    x, options = CALLS[name]
    results = quantise(x.npu(), **options)
    for axis, pair in ((-1, results[:2]), (-2, results[2:])):
        assert same_bits(pair, torch_npu.npu_dynamic_mx_quant(x.npu(), axis=axis, **options))


def test_the_last_axis_by_mantissa_is_that_of_npu_dynamic_mx_quant() -> None:
    for name in ("by mantissa", "over another number"):
        x, options = CALLS[name]
        first = quantise(x.npu(), **options)[:2]
        assert same_bits(first, torch_npu.npu_dynamic_mx_quant(x.npu(), **options))
        # The axis before it is that of the transposed input: its scales, before elements share bytes.
        other = quantise(x.t().contiguous().npu(), **options)[1]
        assert torch.equal(quantise(x.npu(), **options)[3].cpu(), other.cpu().transpose(0, 1))


def test_tiny_blocks_are_multiplied_and_subnormal_ones_are_zeros() -> None:
    tiny = torch.ones(1, 64).bfloat16() * 2.0**-120
    tiny[0, 32:] = 2.0**-130
    y, scales, *_ = quantise(tiny.npu(), dst_type=E4M3)
    assert scales.flatten().tolist() == [0, 0]
    assert y.cpu().float().tolist() == [[128.0] * 32 + [0.0] * 32]
    restored = dequantise(y.cpu(), scales.cpu(), -1, E4M3_FORMAT)
    assert torch.equal(restored[:, :32], tiny[:, :32].float())


X = f16(32, 64)
WRONG: list[tuple[str, torch.Tensor, dict[str, Any]]] = [
    ("input must be", f32(32, 64), {}),
    ("input must have 2 to 7", f16(64), {}),
    ("dst_type", X, {"dst_type": 290}),
    ("round_mode", X, {"dst_type": E4M3, "round_mode": "floor"}),
    ("scale_alg", X, {"scale_alg": 1}),
    ("scale_alg", X, {"dst_type": E5M2, "scale_alg": 2}),
    ("dst_type_max", X, {"dst_type_max": 5.0}),
    ("input.size(-1)", f16(32, 63), {}),
]


@pytest.mark.parametrize(("message", "x", "options"), WRONG)
def test_wrong_calls_are_refused(message: str, x: torch.Tensor, options: dict[str, Any]) -> None:
    for device in ("npu", "meta"):
        with pytest.raises(Refusal, match="npu_dynamic_mx_quant_with_dual_axis: ") as refused:
            quantise(x.to(device), **options)
        assert message in str(refused.value)
