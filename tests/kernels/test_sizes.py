"""The arithmetic of shapes, against NumPy."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from graph_quant.ge.sizes import Sizes, list_of_sizes, one_size, to_sizes, to_tensor
from graph_quant.host.kernels import SIZE_KERNELS
from hypothesis import given
from hypothesis import strategies as st

SIZES = st.lists(st.integers(1, 1000), min_size=1, max_size=5)
ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mul": operator.mul,
    "FloorDiv": operator.floordiv,
    "RealDiv": operator.floordiv,
    "FloorMod": operator.mod,
    "Maximum": np.maximum,
    "Minimum": np.minimum,
}


def run(op_type: str, *args: Any, **attributes: Any) -> Any:
    return SIZE_KERNELS[op_type].function(*args, **attributes)


@pytest.mark.parametrize("op_type", ARITHMETIC)
@given(left=SIZES, right=st.integers(1, 50))
def test_arithmetic(op_type: str, left: list[int], right: int) -> None:
    result = run(op_type, list_of_sizes(left), one_size(right, torch.int64))
    expected = ARITHMETIC[op_type](np.array(left), np.array(right))
    assert list(result.items) == expected.tolist()
    assert result.shape == (len(left),)


@given(sizes=SIZES, data=st.data())
def test_picking_and_joining(sizes: list[int], data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(sizes) - 1))
    picked = run("Gather", list_of_sizes(sizes), one_size(index, torch.int64))
    assert (picked.scalar, picked.shape) == (sizes[index], ())
    packed = run("Pack", [picked, picked])
    assert (packed.ints, packed.shape) == ((sizes[index],) * 2, (2,))
    joined = run("ConcatV2", [packed, list_of_sizes(sizes)], one_size(0, torch.int64))
    assert list(joined.items) == [sizes[index]] * 2 + sizes


@given(sizes=SIZES)
def test_products_and_round_trips(sizes: list[int]) -> None:
    value = list_of_sizes(sizes, torch.int32)
    product = run("ReduceProd", value, list_of_sizes([0]))
    assert product.scalar == int(np.prod([int(size) for size in sizes], dtype=object))
    tensor = to_tensor(value)
    assert tensor.dtype == torch.int32
    assert to_sizes(tensor) == value


def test_casts_keep_numbers_and_change_their_kind() -> None:
    as_float = run("Cast", list_of_sizes([3]), dst_type=0)
    assert as_float == Sizes((3.0,), (1,), torch.float32)
    assert run("RealDiv", as_float, one_size(2.0, torch.float32)).items == (1.5,)
    assert run("Cast", Sizes((2.9,), (), torch.float32), dst_type=9).items == (2,)


def test_reshaping_a_list_of_sizes() -> None:
    assert run("Reshape", list_of_sizes([1, 2, 3, 4]), list_of_sizes([-1, 2])).shape == (2, 2)
    assert run("Unsqueeze", one_size(4, torch.int64), axes=[0]).shape == (1,)
    assert run("Squeeze", list_of_sizes([4]), axis=[0]).shape == ()
