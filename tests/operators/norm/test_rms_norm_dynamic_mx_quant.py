"""npu_rms_norm_dynamic_mx_quant and npu_add_rms_norm_dynamic_mx_quant on Ascend 950: calls, refusals, and the rule."""

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
norm, add_norm = torch_npu.npu_rms_norm_dynamic_mx_quant, torch_npu.npu_add_rms_norm_dynamic_mx_quant


@pytest.fixture(autouse=True)
def on_950() -> Iterator[None]:
    with chip.use(ASCEND_950):
        yield


CALLS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((f16(2, 3, 40), f16(40)), {}),
    ((bf16(3, 70), f32(70)), {"beta": f32(70), "dst_type": torch.float8_e4m3fn, "scale_alg": 1}),
    ((bf16(3, 70), bf16(70)), {"dst_type": E5M2, "epsilon": 0.5}),
    ((f16(64), f16(64)), {"dst_type": E1M2, "round_mode": "floor"}),
]


def _with_sum(call: tuple[tuple[Any, ...], dict[str, Any]]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    (x, *others), options = call
    return (x, x.flip(0) * 0.75, *others), options


def test_graphs_and_meta_tensors_agree_with_eager_execution() -> None:
    results = run_in_every_mode(norm, CALLS)
    assert all(result[-1].shape == (0,) for result in results)
    run_in_every_mode(add_norm, [_with_sum(call) for call in CALLS])


def _expect(wide: torch.Tensor, dtype: torch.dtype, gamma: torch.Tensor, options: dict[str, Any]) -> Any:
    mean = wide.double().square().mean(-1, keepdim=True) + options.get("epsilon", 1e-6)
    normed = wide * mean.rsqrt().float() * gamma.float()
    normed = normed + options["beta"].float() if "beta" in options else normed
    kept = {name: options[name] for name in ("dst_type", "scale_alg", "round_mode") if name in options}
    return torch_npu.npu_dynamic_mx_quant(normed.to(dtype).npu(), **kept)


def test_results_are_those_of_npu_dynamic_mx_quant_of_the_norm() -> None:
    for (x, gamma), options in CALLS:
        on_npu = {name: value.npu() if isinstance(value, torch.Tensor) else value for name, value in options.items()}
        y, scales, _ = norm(x.npu(), gamma.npu(), **on_npu)
        assert same_bits((y, scales), _expect(x.float(), x.dtype, gamma, options))
        (x1, x2, _), _ = _with_sum(((x, gamma), options))
        y, total, scales, _ = add_norm(x1.npu(), x2.npu(), gamma.npu(), **on_npu)
        wide = x1.float() + x2.float()
        assert torch.equal(total.cpu(), wide.to(x.dtype))
        assert same_bits((y, scales), _expect(wide, x.dtype, gamma, options))


def test_one_node_and_bitcasts() -> None:
    graph = lower(lambda x, gamma: add_norm(x, x, gamma)[:3], bf16(4, 64), bf16(64))
    kinds = [kind for kind in types(graph) if kind not in ("Const", "Data")]
    assert kinds == ["AddRmsNormDynamicMxQuant", "Reshape", "Bitcast", "Bitcast", "Fill"]


X, GAMMA = f16(2, 64), f16(64)
WRONG: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("x must be", (f32(2, 64), f32(64)), {}),
    ("gamma must be", (X, bf16(64)), {}),
    ("gamma must have 1 dim", (X, f16(2, 64)), {}),
    ("gamma.size(0)", (X, f16(32)), {}),
    ("beta must be", (X, GAMMA), {"beta": f32(64)}),
    ("beta.size(0)", (X, GAMMA), {"beta": f16(63)}),
    ("x.size(-1) must be even", (f16(2, 63), f16(63)), {}),
    ("scale_alg", (X, GAMMA), {"scale_alg": 1}),
    ("scale_alg", (X, GAMMA), {"scale_alg": 2, "dst_type": E4M3}),
    ("round_mode", (X, GAMMA), {"round_mode": "round", "dst_type": E4M3}),
    ("dst_type", (X, GAMMA), {"dst_type": 290}),
]


@pytest.mark.parametrize(("message", "args", "options"), WRONG)
def test_wrong_calls_are_refused(message: str, args: tuple[Any, ...], options: dict[str, Any]) -> None:
    assert_refused(norm, message, args, options)


def test_wrong_sums_are_refused() -> None:
    assert_refused(add_norm, "x2.size(0)", (X, f16(3, 64), GAMMA), {})
    assert_refused(add_norm, "x2", (X, bf16(2, 64), GAMMA), {})
