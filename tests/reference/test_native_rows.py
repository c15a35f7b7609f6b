"""Native quantisation of rows against the rule in NumPy, bit by bit."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from graph_quant import native
from graph_quant.reference.quant.dynamic_quant import dynamic_quant

pytestmark = pytest.mark.skipif(
    not native.can_quantise_rows(torch.zeros(1)), reason="the processor has no AVX-512, or nothing is built"
)
GENERATOR = torch.Generator().manual_seed(0)
# Around the 16 elements of a vector, the 8 rows of a thread's turn, and lengths whose scale is an inverse.
SIZES = [(1, 1), (1, 15), (3, 16), (9, 17), (8, 2048), (17, 5632), (2, 16320), (1, 16321), (2, 20000)]
EXTREMES = (float("nan"), float("inf"), -float("inf"), -0.0, 1e-40, 3e38)


def stated(x: np.ndarray, smooth: np.ndarray | None, inverts: bool) -> tuple[np.ndarray, np.ndarray]:
    values = x if smooth is None else x * smooth
    largest = np.abs(values).max(-1, keepdims=True)  # NaN where there is one
    top = np.float32(127)
    with np.errstate(all="ignore"):
        multiplier = top / largest
        whole = np.nan_to_num(np.rint(np.clip(values * multiplier, -128, 127)), nan=0.0)
        scale = np.float32(1) / multiplier if inverts else largest * (np.float32(1) / top)
    return whole.astype(np.int8), scale[:, 0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("size", SIZES)
def test_rows(size: tuple[int, int], dtype: torch.dtype) -> None:
    x = torch.randn(size, generator=GENERATOR).mul(3).to(dtype)
    smooth = torch.rand(size[1], generator=GENERATOR)
    for scales in (None, smooth):
        for inverts in (False, True):
            actual = native.quantise_rows(x, scales, inverts)
            wanted = stated(x.float().numpy(), None if scales is None else scales.numpy(), inverts)
            assert all(np.array_equal(one.numpy(), other) for one, other in zip(actual, wanted, strict=True))


def test_extremes_strides_and_rows_of_zeros() -> None:
    x = torch.randn(40, 2 * len(EXTREMES), generator=GENERATOR).t()
    x[0] = 0.0
    for row, extreme in enumerate(EXTREMES):
        x[1 + row, 3 * row] = extreme
    for actual, wanted in zip(native.quantise_rows(x, None, False), stated(x.numpy(), None, False), strict=True):
        assert np.array_equal(actual.numpy(), wanted, equal_nan=actual.is_floating_point())


def test_many_rows_by_several_threads() -> None:
    x = torch.randn(300, 2048, generator=GENERATOR)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        y, scale = dynamic_quant(x)
    finally:
        torch.set_num_threads(before)
    wanted = stated(x.numpy(), None, False)
    assert np.array_equal(y.numpy(), wanted[0])
    assert np.array_equal(scale.numpy(), wanted[1])
