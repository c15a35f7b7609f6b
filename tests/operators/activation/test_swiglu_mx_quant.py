"""npu_swiglu_mx_quant and npu_swiglu_mx_quant_with_dual_axis on Ascend 950: calls, refusals, and their two parts."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch_npu
from graph_quant import chip
from graph_quant.chip import ASCEND_950

from support.ascend950 import assert_refused, run_in_every_mode, same_bits
from support.lowering import lower, types
from support.tensors import bf16, f16, f32

E5M2, E4M3, E2M1, E1M2 = 291, 292, 296, 297


@pytest.fixture(autouse=True)
def on_950() -> Iterator[None]:
    with chip.use(ASCEND_950):
        yield


def counts(*values: int) -> torch.Tensor:
    return torch.tensor(values)


CALLS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((f16(3, 2, 80),), {}),
    ((bf16(5, 76),), {"activate_left": True, "dst_type": torch.float8_e4m3fn, "scale_alg": 1}),
    ((f16(5, 80),), {"swiglu_mode": 1, "dst_type": E1M2, "round_mode": "floor", "clamp_limit": 2.0}),
    ((bf16(2, 70, 8),), {"activate_dim": -2, "axis": 1, "dst_type": E5M2}),
    ((bf16(70, 12),), {"axis": -2, "group_index": counts(33, 0, 5), "dst_type": E4M3, "scale_alg": 1}),
    ((bf16(2, 5, 12),), {"group_index": counts(2, 3).int(), "dst_type": E2M1, "round_mode": "round"}),
]
DUAL_CALLS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((bf16(70, 12),), {}),
    ((f16(70, 12),), {"dst_type": E2M1, "scale_alg": 0, "activate_left": False}),
    ((bf16(140, 12),), {"group_index": counts(33, 33, 130), "dst_type": E5M2, "scale_alg": 0}),
]


def test_graphs_and_meta_tensors_agree_with_eager_execution() -> None:
    run_in_every_mode(torch_npu.npu_swiglu_mx_quant, CALLS)
    run_in_every_mode(torch_npu.npu_swiglu_mx_quant_with_dual_axis, DUAL_CALLS)


def _swiglu(x: torch.Tensor, activate_left: bool, along: int = -1) -> torch.Tensor:
    one, other = (half.float() for half in x.chunk(2, along))
    swished, linear = (one, other) if activate_left else (other, one)
    return (swished / (1 + (-swished).double().exp().float()) * linear).to(x.dtype)


def test_results_are_those_of_npu_dynamic_mx_quant_of_the_swiglu() -> None:
    for index, along, axis in ((0, -1, -1), (1, -1, -1), (3, -2, -2)):
        (x,), options = CALLS[index]
        values = _swiglu(x, options.get("activate_left", False), along)
        kept = {name: options[name] for name in ("dst_type", "scale_alg") if name in options}
        expected = torch_npu.npu_dynamic_mx_quant(values.npu(), axis=axis, **kept)
        assert same_bits(torch_npu.npu_swiglu_mx_quant(x.npu(), **options), expected), index
    for (x,), options in DUAL_CALLS[:2]:
        values = _swiglu(x, options.get("activate_left", True))
        kept = {"dst_type": options.get("dst_type", E4M3), "scale_alg": options.get("scale_alg", 1)}
        expected = torch_npu.npu_dynamic_mx_quant_with_dual_axis(values.npu(), **kept)
        assert same_bits(torch_npu.npu_swiglu_mx_quant_with_dual_axis(x.npu(), **options), expected)


def test_even_columns_are_activated_in_mode_1() -> None:
    (x,), options = CALLS[2]
    gate, linear = x[:, ::2].float().clamp(max=2.0), x[:, 1::2].float().clamp(-2.0, 2.0)
    values = (gate / (1 + (gate * -1.702).double().exp().float()) * (linear + 1)).to(x.dtype)
    expected = torch_npu.npu_dynamic_mx_quant(values.npu(), dst_type=E1M2, round_mode="floor")
    assert same_bits(torch_npu.npu_swiglu_mx_quant(x.npu(), **options), expected)


def test_groups_share_no_blocks_and_rows_beyond_them_are_zeros() -> None:
    (x,), options = CALLS[4]
    y, scales = (result.cpu() for result in torch_npu.npu_swiglu_mx_quant(x.npu(), **_on_npu(options)))
    values = _swiglu(x, False)
    for pair, (start, end) in enumerate(((0, 33), (33, 38))):
        part = torch_npu.npu_dynamic_mx_quant(values[start:end].npu(), axis=0, dst_type=E4M3, scale_alg=1)
        assert same_bits((y[start:end], scales[pair : pair + 1]), part)
    assert not y[38:].view(torch.uint8).any()
    (x,), options = DUAL_CALLS[2]
    y1, scale1, y2, scale2 = (
        r.cpu() for r in torch_npu.npu_swiglu_mx_quant_with_dual_axis(x.npu(), **_on_npu(options))
    )
    values = _swiglu(x, True)
    part = torch_npu.npu_dynamic_mx_quant(values[33:130].npu(), axis=0, dst_type=E5M2)
    assert same_bits((y2[33:130], scale2[2:4]), part)
    assert not y1[130:].view(torch.uint8).any()
    assert not scale1[130:].any()
    assert not scale2[1].any()


def _on_npu(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value.npu() if isinstance(value, torch.Tensor) else value for name, value in options.items()}


def test_the_example_of_op_plugins_test() -> None:
    # Four rows of ones: silu(1) * 1 = 0.73 is 6/8 in float4, with the scale 2^-3.
    y, scales = torch_npu.npu_swiglu_mx_quant(torch.ones(4, 8).bfloat16().npu())
    assert (y.cpu() == 119).all()
    assert scales.cpu().tolist() == [[[124, 0]]] * 4


def test_one_node_and_bitcasts() -> None:
    graph = lower(lambda x: torch_npu.npu_swiglu_mx_quant(x), f16(4, 64))
    kinds = [kind for kind in types(graph) if kind not in ("Const", "Data")]
    assert kinds == ["SwigluMxQuant", "Reshape", "Bitcast", "Bitcast"]


X = f16(4, 64)
WRONG: list[tuple[str, torch.Tensor, dict[str, Any]]] = [
    ("x must be", f32(4, 64), {}),
    ("x must have 2 to 7", f16(64), {}),
    ("x.size(-1) must be even", f16(4, 63), {"dst_type": E4M3}),
    ("half of x.size(-1) must be even", f16(4, 62), {}),
    ("activate_dim must be", f16(2, 4, 64), {"activate_dim": 0}),
    ("axis must be", f16(2, 4, 64), {"axis": -3}),
    ("swiglu_mode", X, {"swiglu_mode": 1, "activate_dim": -2}),
    ("swiglu_mode", X, {"swiglu_mode": 2}),
    ("clamp_limit", X, {"clamp_limit": 0.0}),
    ("glu_alpha", X, {"glu_alpha": float("inf")}),
    ("scale_alg", X, {"scale_alg": 1}),
    ("scale_alg", X, {"scale_alg": 2, "dst_type": E4M3}),
    ("round_mode", X, {"round_mode": "floor", "dst_type": E4M3}),
    ("dst_type", X, {"dst_type": 290}),
    ("group_index must be", X, {"group_index": torch.ones(2)}),
    ("group_mode", X, {"group_index": counts(4), "group_mode": 1}),
    ("x must have 2 dim", f16(2, 4, 64), {"group_index": counts(4), "axis": -2}),
    ("not described", X, {"group_index": counts(4), "activate_dim": -2}),
]


@pytest.mark.parametrize(("message", "x", "options"), WRONG)
def test_wrong_calls_are_refused(message: str, x: torch.Tensor, options: dict[str, Any]) -> None:
    assert_refused(torch_npu.npu_swiglu_mx_quant, message, (x,), options)


WRONG_DUAL: list[tuple[str, torch.Tensor, dict[str, Any]]] = [
    ("x must have 2 dim", f16(2, 4, 64), {}),
    ("scale_alg", X, {"dst_type": E2M1}),
    ("group_index must be", X, {"group_index": counts(4).int()}),
    ("x.size(-1) must be even", f16(4, 63), {}),
]


@pytest.mark.parametrize(("message", "x", "options"), WRONG_DUAL)
def test_wrong_calls_with_two_axes_are_refused(message: str, x: torch.Tensor, options: dict[str, Any]) -> None:
    assert_refused(torch_npu.npu_swiglu_mx_quant_with_dual_axis, message, (x,), options)


def test_groups_beyond_the_rows_are_refused() -> None:
    with pytest.raises(RuntimeError, match="must fit 4"):
        torch_npu.npu_swiglu_mx_quant(X.npu(), group_index=counts(3, 2).npu())
