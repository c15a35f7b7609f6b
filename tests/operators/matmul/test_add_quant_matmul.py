"""npu_add_quant_matmul and its in-place form on Ascend 950: calls, refusals, and the rule once more in NumPy."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch_npu
from graph_quant import chip
from graph_quant.chip import A2, ASCEND_950
from graph_quant.destination import Refusal
from graph_quant.narrow_floats import decode_hif8

from operators.matmul.test_grouped_matmul_950 import E8M0, HIF8, codes, e4, e5, hif8
from support.ascend950 import on_device, run_in_every_mode
from support.tensors import f16, f32, i8

add, add_ = torch_npu.npu_add_quant_matmul, torch_npu.npu_add_quant_matmul_
torch.manual_seed(5)
CODES = {"x1_scale_dtype": E8M0, "x2_scale_dtype": E8M0}
HIFLOAT = {"x1_dtype": HIF8, "x2_dtype": HIF8}


@pytest.fixture(autouse=True)
def on_950() -> Iterator[None]:
    with chip.use(ASCEND_950):
        yield


def view(x: torch.Tensor) -> torch.Tensor:
    return x.transpose(0, 1)


MX = {"x1_scale": view(codes(2, 5, 2)), "group_sizes": [1, 1, 32], **CODES}
CALLS: list[tuple[tuple[torch.Tensor, ...], dict[str, Any]]] = [
    ((f32(5, 6), view(e4(100, 5)), e5(100, 6), codes(2, 6, 2)), MX),
    ((f32(5, 6), view(hif8(40, 5)), hif8(40, 6), f32(1)), {"x1_scale": f32(1), **HIFLOAT}),
]


def test_graphs_and_meta_tensors_agree_with_eager_execution() -> None:
    run_in_every_mode(add, CALLS)


def test_the_in_place_form_writes_self_eagerly_and_in_graphs() -> None:
    (summed, *rest), options = on_device(CALLS[0][0], "npu"), on_device(CALLS[0][1], "npu")
    expected, eager, compiled = add(summed, *rest, **options), summed.clone(), summed.clone()
    assert add_(eager, *rest, **options) is eager
    assert torch.equal(eager, expected)
    assert not torch.equal(summed, expected)

    def step(y: torch.Tensor) -> torch.Tensor:
        return add_(y, *rest, **options) * 1

    torch._dynamo.reset()
    result = torch.compile(step, backend="npu", fullgraph=True)(compiled)
    assert torch.equal(compiled, expected)
    assert torch.equal(result, expected)


def scaled(x: torch.Tensor, scale: torch.Tensor, axis: int) -> Any:
    """Elements times the scales of their blocks along ``axis``; pairs are last."""
    pairs = np.moveaxis(np.exp2(scale.numpy().astype(np.float64) - 127), axis, 1)
    factors = np.repeat(pairs.reshape(len(pairs), -1), 32, 1)[:, : x.size(axis)]
    return x.double().numpy() * np.moveaxis(factors, 1, axis)


@pytest.mark.parametrize("index", range(len(CALLS)))
def test_the_rule_in_numpy(index: int) -> None:
    (summed, x1, x2, x2_scale), options = CALLS[index]
    if "x1_dtype" in options:
        product = np.float32(decode_hif8(x1).double().numpy() @ decode_hif8(x2).double().numpy())
        bits = (options["x1_scale"] * x2_scale).numpy().view(np.uint32) & np.uint32(0xFFFFE000)
        product = product * bits.view(np.float32)
    else:
        product = np.float32(scaled(x1, options["x1_scale"], 1) @ scaled(x2, x2_scale, 0))
    result = add(*on_device((summed, x1, x2, x2_scale), "npu"), **on_device(options, "npu"))
    assert torch.equal(result.cpu(), torch.from_numpy(summed.numpy() + product))


S, X, W, C = f32(5, 6), view(e4(128, 5)), e4(128, 6), codes(2, 6, 2)
H, V = view(hif8(40, 5)), hif8(40, 6)
ONE = {"x1_scale": f32(1), **HIFLOAT}
WRONG: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("self must be torch.float32", (S.half(), X, W, C), MX),
    ("self.size(1)", (f32(5, 5), X, W, C), MX),
    ("self must be contiguous", (f32(6, 5).t(), X, W, C), MX),
    ("x1 must be", (S, view(f16(128, 5)), W, C), MX),
    ("x1 must be float8 or HiFloat8", (S, view(i8(128, 5)), i8(128, 6), C), MX),
    ("x1 must be a transposed view", (S, e4(5, 128), W, C), MX),
    ("x2 must be float8", (S, X, i8(128, 6), C), MX),
    ("x2 must be contiguous", (S, X, view(e4(6, 128)), C), MX),
    ("x2.size(0)", (S, X, e4(64, 6), C), MX),
    ("x1_scale must be given", (S, X, W, C), {**MX, "x1_scale": None, "x1_scale_dtype": None}),
    ("x1_scale and x2_scale must both", (S, X, W, C), {**MX, "x2_scale_dtype": None}),
    ("x1_scale.size(1)", (S, X, W, C), {**MX, "x1_scale": view(codes(1, 5, 2))}),
    ("x2_scale.size(0)", (S, X, W, codes(1, 6, 2)), MX),
    ("x1_scale must be a transposed view", (S, X, W, C), {**MX, "x1_scale": codes(5, 2, 2)}),
    ("group_sizes must be [0 or 1", (S, X, W, C), {**MX, "group_sizes": [1, 1, 64]}),
    ("group_sizes must have three", (S, X, W, C), {**MX, "group_sizes": [1, 1]}),
    ("k must be a multiple of 64", (S, view(e4(100, 5)), e4(100, 6), C), {**MX, "group_sizes": None}),
    ("group_sizes must be None", (S, H, V, f32(1)), {**ONE, "group_sizes": [1, 1, 32]}),
    ("x2_scale must be torch.float32", (S, H, V, f16(1)), ONE),
    ("x2_scale.size(0)", (S, H, V, f32(6)), ONE),
    ("x1_scale and x2_scale must not", (S, H, V, C), {**ONE, **CODES, "x1_scale": codes(1)}),
]


@pytest.mark.parametrize(("message", "args", "options"), WRONG)
def test_wrong_calls_are_refused(message: str, args: tuple[Any, ...], options: dict[str, Any]) -> None:
    with pytest.raises(Refusal, match="npu_add_quant_matmul: ") as refused:
        add(*on_device(args, "npu"), **on_device(options, "npu"))
    assert message in str(refused.value)


def test_other_chips_have_no_kernel() -> None:
    with chip.use(A2), pytest.raises(Refusal, match="Ascend 950"):
        add_(*on_device((S, X, W, C), "npu"), **on_device(MX, "npu"))
