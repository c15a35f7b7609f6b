"""Packing of int4: the order of elements, and round trips."""

import pytest
import torch
from graph_quant import int4
from hypothesis import given
from hypothesis import strategies as st
from torch.fx.experimental.proxy_tensor import make_fx

from support import numpy_rules


def test_order_of_nibbles() -> None:
    assert int4.pack(torch.arange(8)).tolist() == [0x76543210]
    assert int4.pack(torch.arange(-8, 0)).tolist() == [0xFEDCBA98 - 2**32]


@given(st.lists(st.integers(-8, 7), min_size=8, max_size=64).map(lambda values: values[: len(values) // 8 * 8]))
def test_round_trip(values: list[int]) -> None:
    elements = torch.tensor(values, dtype=torch.int8)
    packed = int4.pack(elements)
    assert packed.tolist() == numpy_rules.pack(elements.numpy()).tolist()
    assert int4.unpack(packed).tolist() == values


def test_strided_input_and_leading_dimensions() -> None:
    values = torch.randint(-8, 8, (16, 3, 2), dtype=torch.int8).permute(1, 2, 0)
    packed = int4.pack(values)
    assert packed.shape == (3, 2, 2)
    assert torch.equal(int4.unpack(packed), values)


@pytest.mark.parametrize("shape", [(0,), (0, 0), (3, 0), (0, 8), (2, 0, 8)])
def test_empty_tensors_are_packed(shape: tuple[int, ...]) -> None:
    values = torch.zeros(shape, dtype=torch.int8)
    packed = int4.pack(values)
    assert packed.shape == (*shape[:-1], shape[-1] // 8)
    assert int4.unpack(packed).shape == shape


def test_native_code_and_traced_operations_unpack_alike() -> None:
    packed = torch.randint(-(2**31), 2**31, (5, 6), dtype=torch.int32)
    traced = make_fx(int4.unpack, tracing_mode="fake")(packed)
    for one in (packed, packed.t(), packed[:, ::2], packed[1:1]):
        assert torch.equal(int4.unpack(one), int4.unpack(one.t().contiguous().t()))
        assert torch.equal(
            int4.unpack(one), torch.stack([(one << 28 - 4 * index) >> 28 for index in range(8)], -1).flatten(1)
        )
    assert torch.equal(traced(packed), int4.unpack(packed))


def test_wrong_widths_and_dtypes_are_refused() -> None:
    with pytest.raises(ValueError, match="multiple of 8, got 7"):
        int4.pack(torch.zeros(7))
    with pytest.raises(TypeError, match=r"torch\.int32, got torch\.int8"):
        int4.unpack(torch.zeros(8, dtype=torch.int8))
