"""The native product of int8 rows and int4 weights against NumPy: sizes around its tiles, groups, strides, extremes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from graph_quant import int4, native

pytestmark = pytest.mark.skipif(
    not native.can_multiply_int4(torch.zeros(1, 4, dtype=torch.int8), torch.zeros(4, 1, dtype=torch.int32), 1),
    reason="the processor has no AVX-512 VNNI, or nothing is built",
)
# Rows, depth, columns, groups: pairs of rows, and around the 128 columns of a tile.
SIZES = [(1, 4, 8, 1), (1, 64, 128, 2), (2, 64, 120, 4), (3, 128, 136, 4), (5, 256, 264, 8), (16, 512, 1000, 2)]


@pytest.mark.parametrize(("rows", "depth", "columns", "groups"), SIZES)
@pytest.mark.parametrize("extreme", [False, True])
def test_sums_are_exact(rows: int, depth: int, columns: int, groups: int, extreme: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(-128, 128, (rows, depth), generator=generator).to(torch.int8)
    stored = torch.randint(-(2**31), 2**31, (depth, columns // 8 + 2), generator=generator).to(torch.int32)
    if extreme:
        x.fill_(-128)
        stored.fill_(int(int4.pack(torch.full((8,), -8))))
    for weight in (stored[:, : columns // 8].contiguous(), stored[:, 1 : 1 + columns // 8]):
        left, right = x.numpy().astype(np.int64), int4.unpack(weight).numpy().astype(np.int64)
        parts = zip(np.split(left, groups, 1), np.split(right, groups), strict=True)
        expected = np.stack([one @ other for one, other in parts])
        np.testing.assert_array_equal(native.int4_product(x, weight, groups).numpy(), expected)


def test_other_operands_are_not_taken() -> None:
    x, weight = torch.zeros(1, 64, dtype=torch.int8), torch.zeros(64, 2, dtype=torch.int32)
    assert native.can_multiply_int4(x, weight, 16)
    assert not native.can_multiply_int4(x, weight, 32)
    assert not native.can_multiply_int4(x.expand(17, 64), weight, 1)
    assert not native.can_multiply_int4(x, weight.t().contiguous().t(), 1)
    assert not native.can_multiply_int4(x[:, :60], weight, 1)
    assert not native.can_multiply_int4(x, weight[:, :0], 1)
