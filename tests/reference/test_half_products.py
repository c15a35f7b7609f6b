"""Half-precision products of native code: their order of summation, and that nothing else decides their bits."""

from itertools import product

import numpy as np
import pytest
import torch
from graph_quant import native
from graph_quant.reference.half_products import MAX_HALF_PRODUCT, STEP, multiply
from torch import Tensor

needs_native = pytest.mark.skipif(not native.CAN_MULTIPLY_HALVES, reason="no AVX-512")
HALVES = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
# Batches, rows, depth, columns: steps of 32, blocks of 1024 and their rests, tiles of 6 by 4 and theirs.
SIZES = [(1, 1, 1, 1), (2, 7, 33, 5), (1, 6, 64, 4), (3, 13, 1025, 70), (1, 200, 2080, 67), (2, 3, 0, 4)]


def _uniform(*shape: int) -> Tensor:
    """Multiples of 1/64 below 2, so that sums are exact in float64."""
    return torch.randint(-127, 128, shape) / 64


def _expected(x1: Tensor, x2: Tensor) -> Tensor:
    """The sums in the order that half.c states, by NumPy: float64 holds a float32 sum plus a product exactly."""
    one, other = x1.double().numpy(), x2.double().numpy()
    depth = one.shape[-1]
    order = [(0, 1), (1, 0)][x1.dtype == torch.bfloat16]
    total = np.zeros((*one.shape[:-1], other.shape[-1]), np.float32)
    for start in range(0, depth, 1024):
        lanes = np.zeros((16, *total.shape), np.float32)
        for step in range(start, min(start + 1024, depth), 32):
            for half, lane in product(order, range(16)):
                k = step + (2 * lane + half if x1.dtype == torch.bfloat16 else 16 * half + lane)
                if k < depth:
                    lanes[lane] = lanes[lane] + one[..., k, None] * other[..., None, k, :]
        while len(lanes) > 1:
            middle = len(lanes) // 2
            lanes = lanes[:middle] + lanes[middle:]
        total = total + lanes[0]
    return torch.from_numpy(total)


@needs_native
@HALVES
@pytest.mark.parametrize("sizes", SIZES)
def test_sums_are_in_the_stated_order(sizes: tuple[int, int, int, int], dtype: torch.dtype) -> None:
    batches, rows, depth, columns = sizes
    x1, x2 = _uniform(batches, rows, depth).to(dtype), _uniform(batches, depth, columns).to(dtype)
    expected = _expected(x1, x2)
    assert torch.equal(multiply(x1, x2), expected)
    bias = torch.randn(columns)
    assert torch.equal(multiply(x1, x2, bias, dtype), (expected + bias).to(dtype))


def _with_strides(x: Tensor) -> list[Tensor]:
    """The same values row-major, column-major, as a part of a larger tensor, and with gaps between elements."""
    return [x, x.mT.contiguous().mT, torch.cat([x, x], -1)[..., : x.size(-1)], x.repeat_interleave(2, -1)[..., ::2]]


@needs_native
@HALVES
def test_strides_rows_threads_and_instructions_do_not_change_bits(dtype: torch.dtype) -> None:
    x1, x2, bias = torch.randn(2, 19, 1100).to(dtype), torch.randn(2, 1100, 37).to(dtype), torch.randn(37)
    expected = multiply(x1, x2, bias, dtype)
    for one, other, uses_dots in product(_with_strides(x1), _with_strides(x2), (True, False)):
        out = torch.full((2, 37, 19), torch.nan, dtype=dtype).mT
        native.half_product(one, other, out, bias, uses_dots)
        assert torch.equal(out, expected), (one.stride(), other.stride(), uses_dots)
    assert torch.equal(multiply(x1[:, 3:4], x2[..., 5:9], bias[5:9], dtype), expected[:, 3:4, 5:9])
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        wide = torch.randn(1100, 7000).to(dtype)
        several = multiply(x1[0], wide)
        torch.set_num_threads(1)
        assert torch.equal(multiply(x1[0], wide), several)
    finally:
        torch.set_num_threads(threads)


@needs_native
@HALVES
def test_leading_dimensions_broadcast(dtype: torch.dtype) -> None:
    x1, x2 = torch.randn(4, 3, 5, 40).to(dtype), torch.randn(4, 3, 40, 6).to(dtype)
    for one, other in (
        (x1, x2),
        (x1, x2[0, 0]),
        (x1, x2[:1, :1]),
        (x1[0], x2[:, :1]),
        (x1.transpose(0, 1), x2.transpose(0, 1)),
        (x1, x2[:, :1].expand(-1, 3, -1, -1)),
    ):
        result = multiply(one, other)
        batch = torch.broadcast_shapes(one.shape[:-2], other.shape[:-2])
        left, right = one.expand(*batch, 5, 40), other.expand(*batch, 40, 6)
        for index in product(*map(range, batch)):
            assert torch.equal(result[index], multiply(left[index], right[index]))


@needs_native
@pytest.mark.parametrize("uses_dots", [True, False])
def test_subnormal_and_special_operands(uses_dots: bool) -> None:
    """The instructions for bfloat16 take subnormal numbers for zero; results are as exact as float32 sums."""
    x1, x2 = torch.randn(7, 64), torch.randn(64, 9)
    x1[0] *= 1e-38
    x1[1] *= 1e-30
    x1[2] = 0
    x1[3, 5], x1[4, 5], x1[5, 5] = torch.inf, torch.nan, 1e-39
    x2[:, 1] *= 1e-38
    x2[:, 2] *= 1e-39
    x2[:, 3] = 0
    x2[5, 4], x2[5, 5] = torch.inf, 1e-40
    x1, x2 = x1.bfloat16(), x2.bfloat16()
    out = torch.empty(7, 9)
    native.half_product(x1[None], x2[None], out[None], None, uses_dots)
    expected = x1.double() @ x2.double()
    allowed = (x1.double().abs() @ x2.double().abs()) * 2**-22 + 2**-149 * 64
    usual = expected.isfinite()
    assert torch.all((out.double() - expected).abs()[usual] <= allowed[usual])
    assert torch.equal(out[~usual].double().nan_to_num(nan=7), expected[~usual].nan_to_num(nan=7))


@needs_native
def test_product_is_an_operator_to_tracers() -> None:
    x1, x2, bias = torch.randn(3, 40).half(), torch.randn(40, 6).half(), torch.randn(6).half()
    torch.library.opcheck(STEP, (x1, x2, bias, torch.float16))
    torch.library.opcheck(STEP, (x1[None], x2, None, torch.float32))


def test_products_are_differentiated() -> None:
    x1, x2 = torch.randn(3, 4).half().requires_grad_(), torch.randn(4, 5).half()
    multiply(x1, x2).sum().backward()
    assert x1.grad is not None
    assert torch.equal(x1.grad, x2.float().sum(1).half().expand(3, 4))


@HALVES
def test_float32_products_stay_with_torch(dtype: torch.dtype) -> None:
    x1, x2 = torch.randn(3, 4), torch.randn(4, 5)
    assert torch.equal(multiply(x1, x2), x1 @ x2)
    assert torch.equal(multiply(x1.to(dtype), x2), x1.to(dtype).float() @ x2)
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        multiply(x1.to(dtype), x2[:3].to(dtype))
    assert MAX_HALF_PRODUCT > 0
