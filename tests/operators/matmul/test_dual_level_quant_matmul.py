"""npu_dual_level_quant_matmul on Ascend 950: calls, refusals, and the rule once more in NumPy."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch_npu
from graph_quant import chip
from graph_quant.chip import A2, ASCEND_950
from graph_quant.destination import Refusal

from operators.matmul.test_grouped_matmul_950 import codes, fp4
from support.ascend950 import assert_refused, on_device, run_in_every_mode
from support.tensors import f16, f32, i8

multiply = torch_npu.npu_dual_level_quant_matmul
torch.manual_seed(4)


@pytest.fixture(autouse=True)
def on_950() -> Iterator[None]:
    with chip.use(ASCEND_950):
        yield


def blocks(x2: torch.Tensor) -> torch.Tensor:
    return torch_npu.npu_format_cast(x2.npu(), 29)


def case(rows: int, columns: int, half: int) -> tuple[torch.Tensor, ...]:
    """Operands and scales for k of ``2 * half``."""
    groups, pairs = -(-half // 256), -(-half // 32)
    x1, x2 = fp4(rows, half), fp4(columns, half).view(torch.int8)
    return x1, x2, f32(rows, groups), f32(groups, columns), codes(rows, pairs, 2), codes(columns, pairs, 2)


CALLS: list[tuple[tuple[torch.Tensor, ...], dict[str, Any]]] = [
    (case(3, 64, 300), {"bias": f32(64)}),
    (case(2, 32, 50), {"output_dtype": torch.float16}),
]


def test_graphs_and_meta_tensors_agree_with_eager_execution() -> None:
    for args, options in CALLS:
        result = multiply(*on_device(args, "meta"), **on_device(options, "meta"))
        assert result.shape == (args[0].size(0), args[1].size(0))
    (x1, x2, *scales), options = CALLS[0]
    run_in_every_mode(multiply, [((x1, blocks(x2), *scales), options)])


FLOAT4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def values(x: torch.Tensor, level1: torch.Tensor) -> Any:
    """Elements times the scales of their blocks."""
    packed = x.view(torch.uint8).numpy()
    elements = FLOAT4[np.stack([packed & 15, packed >> 4], -1).reshape(len(packed), -1)]
    scales = np.exp2(level1.numpy().reshape(len(packed), -1) - 127.0)
    return elements * np.repeat(scales, 32, 1)[:, : elements.shape[1]]


@pytest.mark.parametrize("index", range(len(CALLS)))
def test_the_rule_in_numpy(index: int) -> None:
    (x1, x2, first, second, one, other), options = CALLS[index]
    left, right = values(x1, one), values(x2, other)
    total = np.zeros((len(left), len(right)), np.float32)
    total = total + options["bias"].numpy() if "bias" in options else total
    for group in range(first.size(1)):
        depth = slice(512 * group, 512 * group + 512)
        product = np.float32(left[:, depth] @ right[:, depth].T)
        scale = first.numpy()[:, group, None] * second.numpy()[group]
        total = (product.astype(np.float64) * scale + total).astype(np.float32)
    result = multiply(x1.npu(), blocks(x2), *on_device((first, second, one, other), "npu"), **on_device(options, "npu"))
    expected = torch.from_numpy(total).to(options.get("output_dtype", torch.bfloat16))
    assert torch.equal(result.cpu(), expected)


X1, X2, L1, L2, C1, C2 = case(3, 32, 300)
WRONG: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("x1 must be", (f16(3, 300), X2, L1, L2, C1, C2), {}),
    ("x2 must be torch.int8", (X1, X1, L1, L2, C1, C2), {}),
    ("x1 must have 2", (X1[None], X2, L1, L2, C1, C2), {}),
    ("x2.size(1)", (X1, i8(32, 200), L1, L2, C1, C2), {}),
    ("x1_level0_scale must be", (X1, X2, L1.half(), L2, C1, C2), {}),
    ("x1_level0_scale.size(1)", (X1, X2, f32(3, 1), L2, C1, C2), {}),
    ("x2_level0_scale.size(0)", (X1, X2, L1, f32(1, 32), C1, C2), {}),
    ("x1_level1_scale must be", (X1, X2, L1, L2, f32(3, 10, 2), C2), {}),
    ("x1_level1_scale.size(1)", (X1, X2, L1, L2, codes(3, 9, 2), C2), {}),
    ("x2_level1_scale.size(0)", (X1, X2, L1, L2, C1, codes(31, 10, 2)), {}),
    ("bias must be torch.float32", (X1, X2, L1, L2, C1, C2), {"bias": f16(32)}),
    ("bias.size(0)", (X1, X2, L1, L2, C1, C2), {"bias": f32(1)}),
    ("output_dtype must be", (X1, X2, L1, L2, C1, C2), {"output_dtype": torch.float32}),
]


@pytest.mark.parametrize(("message", "args", "options"), WRONG)
def test_wrong_calls_are_refused(message: str, args: tuple[Any, ...], options: dict[str, Any]) -> None:
    assert_refused(multiply, message, args, options)


def test_x2_is_in_fractal_nz_and_the_others_are_contiguous() -> None:
    args = [tensor.npu() for tensor in (X1, X2, L1, L2, C1, C2)]
    with pytest.raises(Refusal, match="x2 must be in"):
        multiply(*args)
    with pytest.raises(Refusal, match="x2_level0_scale must be contiguous"):
        multiply(args[0], blocks(X2), args[2], L2.t().contiguous().npu().t(), *args[4:])


def test_other_chips_have_no_kernel() -> None:
    with chip.use(A2), pytest.raises(Refusal, match="Ascend 950"):
        multiply(*(tensor.npu() for tensor in (X1, X2, L1, L2, C1, C2)))
