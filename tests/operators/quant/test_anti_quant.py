"""npu_anti_quant against its document's printed example, a NumPy statement of its rule, and the way back."""

import numpy as np
import pytest
import torch
import torch_npu
from hypothesis import given, settings
from hypothesis import strategies as st

from support.rules import floats
from support.tensors import i8, i32

EXAMPLES = 200
FLOATS = st.floats(width=32, allow_nan=True, allow_infinity=True)


def nibbles(packed: torch.Tensor) -> np.ndarray:
    """The int4 elements of int32, the first in the lowest four bits."""
    words = packed.numpy().astype(np.int64)[..., None]
    unsigned = (words >> (4 * np.arange(8))) & 0xF
    return np.where(unsigned > 7, unsigned - 16, unsigned).reshape(*packed.shape[:-1], -1)


def expected(x: np.ndarray, scale: torch.Tensor, offset: torch.Tensor | None) -> np.ndarray:
    """The float16 bits: sum and product in float32, then one rounding."""
    with np.errstate(all="ignore"):
        values = x.astype(np.float32)
        if offset is not None:
            values = values + floats(offset)
        return (values * floats(scale)).astype(np.float16)


def test_the_documents_example() -> None:
    x = torch.tensor([1, 2, 3, 4], dtype=torch.int8).npu()
    two = torch.tensor([2.0]).npu()
    y = torch_npu.npu_anti_quant(x, two, offset=two, dst_dtype=torch.float16)
    assert y.dtype == torch.float16
    assert y.tolist() == [6.0, 8.0, 10.0, 12.0]


@settings(max_examples=EXAMPLES, deadline=None)
@given(scale=st.lists(FLOATS, min_size=16, max_size=16), offset=st.none() | st.lists(FLOATS, min_size=16, max_size=16))
def test_rule(scale: list[float], offset: list[float] | None) -> None:
    scales, offsets = torch.tensor(scale), None if offset is None else torch.tensor(offset)
    whole, packed = i8(3, 16), i32(3, 2)
    for x, elements in ((whole, whole.numpy()), (packed, nibbles(packed))):
        y = torch_npu.npu_anti_quant(x, scales, offset=offsets)
        np.testing.assert_array_equal(y.numpy(), expected(elements, scales, offsets))


@pytest.mark.parametrize("kind", [torch.int8, torch.quint4x2])
def test_takes_back_what_quantisation_did(kind: torch.dtype) -> None:
    x = torch.linspace(-2, 2, 64).reshape(4, 16)
    steps = torch.full((16,), 2.0 ** (5 if kind is torch.int8 else 1))
    y = torch_npu.npu_quantize(x, steps, None, kind, -1, False)
    back = torch_npu.npu_anti_quant(y, 1 / steps)
    assert (back.float() - x).abs().max() <= 0.5 / steps[0] + 2**-10
