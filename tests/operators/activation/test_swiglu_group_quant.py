"""npu_swiglu_group_quant and its gradient on Ascend 950: calls, refusals, the rule, and autograd."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch_npu
from graph_quant import chip
from graph_quant.chip import ASCEND_950
from graph_quant.narrow_floats import decode_hif8, encode_hif8

from support.ascend950 import assert_refused, run_in_every_mode
from support.tensors import bf16, f16, f32

forward, backward = torch_npu.npu_swiglu_group_quant, torch_npu.npu_swiglu_group_quant_backward


@pytest.fixture(autouse=True)
def on_950() -> Iterator[None]:
    with chip.use(ASCEND_950):
        yield


def counts(*values: int) -> torch.Tensor:
    return torch.tensor(values)


CALLS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((f16(2, 3, 16),), {"quant_mode": 3, "dst_type_max": 15.0}),
    ((f32(7, 16),), {"quant_mode": 3, "weight": f32(7, 1), "group_index": counts(2, 0, 3), "output_origin": True}),
    ((bf16(7, 16),), {"quant_mode": 2, "scale": f32(1), "clamp_limit": 1.5, "output_origin": True}),
    ((bf16(7, 16),), {"quant_mode": 2, "scale": f32(2).abs(), "group_index": counts(3, 4), "weight": f32(7)}),
]
GRADIENTS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((f32(4, 8), f32(4, 16)), {"clamp_limit": -1.0}),
    ((f32(4, 8), f32(4, 16)), {"weight": f32(4, 1), "y_origin": f32(4, 8), "clamp_limit": 2.0}),
    (
        (bf16(2, 3, 8), bf16(2, 3, 16)),
        {"weight": f32(2, 3), "y_origin": bf16(2, 3, 8), "group_index": counts(1, 3), "clamp_limit": 2.0},
    ),
]


def test_graphs_and_meta_tensors_agree_with_eager_execution() -> None:
    run_in_every_mode(forward, CALLS)
    run_in_every_mode(backward, GRADIENTS)


def _weighted(x: torch.Tensor, weight: torch.Tensor | None, limit: float) -> torch.Tensor:
    gate, linear = x.reshape(-1, x.size(-1)).chunk(2, -1)
    if limit > 0:
        gate, linear = gate.clamp(max=limit), linear.clamp(-limit, limit)
    values = torch.nn.functional.silu(gate) * linear
    return values if weight is None else values * weight.reshape(-1, 1)


def on_npu(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value.npu() if isinstance(value, torch.Tensor) else value for name, value in options.items()}


@pytest.mark.parametrize("index", range(len(CALLS)))
def test_the_rule_of_the_document(index: int) -> None:
    (x,), options = CALLS[index]
    y, scale, origin = (result.cpu() for result in forward(x.npu(), **on_npu(options)))
    values = _weighted(x.float(), options.get("weight"), options.get("clamp_limit", -1.0))
    if options.get("output_origin"):
        torch.testing.assert_close(origin.float().reshape(values.shape), values, rtol=8e-3, atol=1e-6)
    else:
        assert origin.shape == (0,)
    sizes = options["group_index"].tolist() if "group_index" in options else [values.size(0)]
    start = 0
    for group, size in enumerate(sizes):
        part, codes = values[start : start + size], y.reshape(values.shape)[start : start + size]
        start += size
        if not size:
            assert scale[group] == 0
            continue
        if options["quant_mode"] == 3:
            torch.testing.assert_close(scale[group], part.abs().max() / 15.0, rtol=1e-6, atol=0)
            expected = part / scale[group]
        else:
            expected = part * options["scale"][group]
        # HiFloat8 has at least one bit of mantissa.
        torch.testing.assert_close(decode_hif8(codes), decode_hif8(encode_hif8(expected)), rtol=0.5, atol=1e-6)
        assert (codes == encode_hif8(expected)).float().mean() > 0.95
    assert not y.reshape(values.shape)[start:].any()


@pytest.mark.parametrize("index", range(len(GRADIENTS)))
def test_gradients_are_those_of_autograd(index: int) -> None:
    (grad_y, x), options = GRADIENTS[index]
    leaf = x.float().requires_grad_()
    weight = options["weight"].clone().requires_grad_() if "weight" in options else None
    values = _weighted(leaf, weight, options["clamp_limit"])
    origin = _weighted(x.float(), None, options["clamp_limit"]).reshape(grad_y.shape).to(x.dtype)
    values.backward(grad_y.float().reshape(values.shape))  # type: ignore[no-untyped-call]
    grads = backward(
        grad_y.npu(), x.npu(), **on_npu({**options, **({"y_origin": origin} if weight is not None else {})})
    )
    grad_x, grad_weight = (grad.cpu() for grad in grads)
    rows = int(options["group_index"].sum()) if "group_index" in options else values.size(0)
    tolerance = 1e-5 if x.dtype == torch.float32 else 2e-2
    assert leaf.grad is not None
    expected = leaf.grad.reshape(-1, x.size(-1))
    torch.testing.assert_close(
        grad_x.float().reshape(expected.shape)[:rows], expected[:rows], rtol=tolerance, atol=tolerance
    )
    assert not grad_x.reshape(expected.shape)[rows:].any()
    if weight is None:
        assert grad_weight.shape == (0,)
    else:
        assert weight.grad is not None
        torch.testing.assert_close(
            grad_weight.flatten()[:rows], weight.grad.flatten()[:rows], rtol=tolerance, atol=5 * tolerance
        )
        assert not grad_weight.flatten()[rows:].any()


X = f16(4, 16)
WRONG: list[tuple[str, torch.Tensor, dict[str, Any]]] = [
    ("quant_mode must be", X, {}),
    ("quant_mode must be", X, {"quant_mode": 1}),
    ("quant_mode 2 needs scale", X, {"quant_mode": 2}),
    ("scale.size(0)", X, {"quant_mode": 2, "scale": f32(2)}),
    ("scale must be", X, {"quant_mode": 2, "scale": f16(1)}),
    ("x.size(-1) must be even", f16(4, 15), {"quant_mode": 3}),
    ("clamp_limit", X, {"quant_mode": 3, "clamp_limit": -2.0}),
    ("dst_type_max", X, {"quant_mode": 3, "dst_type_max": 0.0}),
    ("weight must be", X, {"quant_mode": 3, "weight": f16(4)}),
    ("weight.numel()", X, {"quant_mode": 3, "weight": f32(3)}),
    ("group_index must be", X, {"quant_mode": 3, "group_index": counts(4).int()}),
]


@pytest.mark.parametrize(("message", "x", "options"), WRONG)
def test_wrong_calls_are_refused(message: str, x: torch.Tensor, options: dict[str, Any]) -> None:
    assert_refused(forward, message, (x,), options)


def test_wrong_gradients_are_refused() -> None:
    grad_y = f16(4, 8)
    assert_refused(backward, "clamp_limit must be -1", (grad_y, X), {})
    assert_refused(backward, "weight needs y_origin", (grad_y, X), {"weight": f32(4), "clamp_limit": -1.0})
    assert_refused(backward, "grad_y.size(-1)", (f16(4, 7), X), {"clamp_limit": -1.0})
    assert_refused(backward, "grad_y must be", (f32(4, 8), X), {"clamp_limit": -1.0})


def test_groups_beyond_the_tokens_are_refused() -> None:
    with pytest.raises(RuntimeError, match="must fit 4"):
        forward(X.npu(), quant_mode=3, group_index=counts(3, 2).npu())
