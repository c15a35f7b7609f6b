"""Kernels whose rules differ from torch's, against plain statements of the rules."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from graph_quant.ge.values import Sizes, list_of_sizes, one_size
from graph_quant.host.kernels import KERNELS
from hypothesis import given
from hypothesis import strategies as st

INT4, INT8, INT32, INT64, UINT64 = 29, 2, 3, 9, 10


def run(op_type: str, *args: Any, **attributes: Any) -> Any:
    return KERNELS[op_type].function(*args, **attributes)


@pytest.mark.parametrize(
    ("shape", "wanted", "expected"),
    [
        ((2, 3, 16), (0, 0, -1, 8), (2, 3, 2, 8)),
        ((2, 6), (-1, 0), (2, 6)),
        ((4, 6), (0, -1), (4, 6)),
        ((0, 8), (0, -1, 8), (0, 1, 8)),
        ((3, 0), (0, 5), (0, 5)),
    ],
)
def test_reshape_zero_keeps_and_minus_one_infers(
    shape: tuple[int, ...], wanted: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    assert run("Reshape", torch.zeros(shape), list_of_sizes(wanted)).shape == expected


@given(
    begin=st.lists(st.integers(-5, 5), min_size=2, max_size=2),
    end=st.lists(st.integers(-5, 7), min_size=2, max_size=2),
    step=st.lists(st.sampled_from([1, 2, 3, -1, -2]), min_size=2, max_size=2),
    masks=st.tuples(st.integers(0, 3), st.integers(0, 3)),
)
def test_strided_slice_is_python_slicing(
    begin: list[int], end: list[int], step: list[int], masks: tuple[int, int]
) -> None:
    x = np.arange(20).reshape(4, 5)
    expected = x[
        tuple(
            slice(
                None if masks[0] >> at & 1 else begin[at],
                None if masks[1] >> at & 1 else end[at],
                step[at],
            )
            for at in range(2)
        )
    ]
    result = run(
        "StridedSlice",
        torch.from_numpy(x),
        list_of_sizes(begin),
        list_of_sizes(end),
        list_of_sizes(step),
        begin_mask=masks[0],
        end_mask=masks[1],
    )
    assert result.tolist() == expected.tolist()


def test_strided_slice_shrinks_and_adds_axes() -> None:
    x = torch.arange(24).reshape(2, 3, 4)
    result = run(
        "StridedSlice", x, list_of_sizes([1, 0, 0]), list_of_sizes([2, 0, 2]), new_axis_mask=2, shrink_axis_mask=1
    )
    assert torch.equal(result, x[1, None, 0:2])


def test_bitcast_packs_int4_lowest_nibble_first() -> None:
    elements = torch.tensor([[0, 1, 2, 3, 4, 5, 6, 7], [-8, -7, -6, -5, -4, -3, -2, -1]], dtype=torch.int8)
    packed = run("Bitcast", elements, type=INT32)
    assert [value & 0xFFFFFFFF for value in packed.tolist()] == [0x76543210, 0xFEDCBA98]
    assert torch.equal(run("Bitcast", packed, type=INT4), elements)


def test_bitcast_between_widths() -> None:
    words = torch.tensor([[1, -1], [0x01020304, 0]], dtype=torch.int32)
    as_bytes = run("Bitcast", words, type=INT8)
    assert as_bytes.shape == (2, 2, 4)
    assert as_bytes[1, 0].tolist() == [4, 3, 2, 1]
    assert torch.equal(run("Bitcast", as_bytes, type=INT32), words)
    params = torch.tensor([1 << 46, -1])
    assert torch.equal(run("Bitcast", run("Bitcast", params, type=UINT64), type=INT64), params)


def test_random_distributions() -> None:
    shape, key, alg = list_of_sizes([100_000]), torch.tensor([11]), one_size(1, torch.int32)
    counter = torch.tensor([0, 4])
    normal = run("StatelessRandomNormalV2", shape, key, counter, alg)
    assert abs(normal.mean().item()) < 0.02
    assert abs(normal.std().item() - 1) < 0.02
    assert abs((normal.abs() < 1).float().mean().item() - math.erf(1 / math.sqrt(2))) < 0.01
    uniform = run("StatelessRandomUniformV2", shape, key, counter, alg, dtype=1)
    assert uniform.dtype == torch.float16
    assert uniform.min().item() >= 0
    assert uniform.max().item() < 1
    hits = run("StatelessBernoulli", shape, torch.tensor(0.3), key, torch.tensor([8]))
    assert abs(hits.mean().item() - 0.3) < 0.01


def test_scatter_writes_into_its_input() -> None:
    var = torch.zeros(2, 1, 5, 3)
    result = run("Scatter", var, torch.tensor([1, 3]), torch.ones(2, 1, 2, 3), reduce="update", axis=-2)
    assert result.data_ptr() == var.data_ptr()
    expected = np.zeros((2, 1, 5, 3))
    expected[0, 0, 1:3] = 1
    expected[1, 0, 3:5] = 1
    assert np.array_equal(var.numpy(), expected)


def test_half_precision_products_round_once() -> None:
    x1, x2 = torch.full((1, 2048), 1.0).half(), torch.full((2048, 1), 1.0).half()
    bias = torch.tensor([0.5]).half()
    assert run("MatMulV2", x1, x2, bias).item() == 2048.0
    assert run("MatMulV2", x1[:, :1001], x2[:1001], bias).item() == 1001.5


def test_pad_modes() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    assert torch.equal(
        run("PadV3", x, list_of_sizes([1, 0, 0, 2]), torch.tensor(9.0)),
        torch.from_numpy(np.pad(x.numpy(), ((1, 0), (0, 2)), constant_values=9)),
    )
    for mode, name in (("reflect", "reflect"), ("edge", "edge")):
        expected = torch.from_numpy(np.pad(x.numpy(), ((0, 0), (2, 1)), mode=name))  # type: ignore[call-overload]
        assert torch.equal(run("PadV3", x, Sizes((0, 0, 2, 1), (2, 2), torch.int64), mode=mode), expected)
