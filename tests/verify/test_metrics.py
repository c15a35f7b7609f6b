"""Errors and SQNR against NumPy and their definitions."""

import math

import numpy as np
import pytest
import torch
from graph_quant import int4
from graph_quant.verification.compare.metrics import compare
from graph_quant.verification.compare.source import line_of
from graph_quant.verification.report.words import decibel, number, result_type, share, wrong
from hypothesis import given, settings
from hypothesis import strategies as st

_FLOATS = st.lists(st.floats(-1e3, 1e3, width=32), min_size=1, max_size=12)


@given(_FLOATS, st.integers(0, 11), st.floats(-2, 2, width=32))
@settings(max_examples=150, deadline=None)
def test_numbers_are_those_of_numpy(values: list[float], index: int, change: float) -> None:
    reference = np.array(values, dtype=np.float32)
    graph = reference.copy()
    graph[index % len(values)] += np.float32(change)
    deviation = compare(torch.from_numpy(reference), torch.from_numpy(graph))
    error = np.abs(reference.astype(np.float64) - graph.astype(np.float64))
    assert deviation.equal == (reference.tobytes() == graph.tobytes())
    assert deviation.max_error == error.max()
    assert deviation.mean_error == pytest.approx(error.mean())
    assert deviation.differing == sum(a.tobytes() != b.tobytes() for a, b in zip(reference, graph, strict=True))
    noise, signal = np.square(error).sum(), np.square(reference.astype(np.float64)).sum()
    if noise and signal:
        assert deviation.sqnr == pytest.approx(10 * np.log10(signal / noise))


@pytest.mark.parametrize(
    ("reference", "graph", "equal", "max_error"),
    [
        ([math.nan], [math.nan], True, 0),
        ([0.0], [-0.0], False, 0),
        ([1.0], [math.nan], False, math.inf),
        ([math.inf], [math.inf], True, 0),
        ([math.inf], [-math.inf], False, math.inf),
        ([math.inf, 2.0], [math.inf, 3.0], False, 1),
        ([], [], True, 0),
    ],
)
def test_nan(reference: list[float], graph: list[float], equal: bool, max_error: float) -> None:
    deviation = compare(torch.tensor(reference), torch.tensor(graph))
    assert (deviation.equal, deviation.max_error) == (equal, max_error)


def test_uint64_of_ge_is_int64_of_torch() -> None:
    bits = torch.tensor([-1, 5, 2**62])
    assert compare(bits, bits.view(torch.uint64)).equal


def test_wrong_dtype_and_wrong_shape_are_never_equal() -> None:
    x = torch.arange(6, dtype=torch.int8).reshape(2, 3)
    other = compare(x, x.to(torch.uint8))
    assert (other.equal, other.differing, other.mismatch) == (False, 0, "uint8 instead of int8")
    transposed = compare(x, x.T)
    assert (transposed.equal, transposed.mismatch) == (False, "shape [3, 2] instead of [2, 3]")


def test_first_difference_is_reported() -> None:
    x = torch.arange(12, dtype=torch.int32).reshape(3, 4)
    changed = x.clone()
    changed[1, 2] = 9
    changed[2, 0] = 0
    assert wrong(compare(x, changed)) == "2 of 12 values differ, the first at [1, 2] 6 became 9"


def test_close_values_are_printed_with_enough_digits() -> None:
    near = torch.tensor([0.1]).nextafter(torch.tensor([1.0]))
    assert wrong(compare(torch.tensor([0.1]), near)).endswith("the first at [0] 0.100000001 became 0.100000009")


def test_packed_int4_is_not_confused_with_int32() -> None:
    packed = int4.pack(torch.arange(-8, 8).reshape(2, 8))
    assert compare(packed, packed.flip(0)).differing == 2
    assert compare(int4.unpack(packed), int4.unpack(packed.flip(0))).differing == 16


def test_the_line_shown_is_the_users_own() -> None:
    trace = (
        '  File "model.py", line 7, in forward\n    return self.linear(x)\n'
        f'  File "{torch.nn.functional.__file__}", line 1, in linear\n    return torch._C._nn.linear(x)\n'
        f'  File "{int4.__file__}", line 2, in pack\n'
    )
    assert line_of(trace) == ("model.py", 7, "return self.linear(x)")
    assert str(line_of(trace)) == "model.py:7"
    assert line_of(f'  File "{int4.__file__}", line 2, in pack\n') == (int4.__file__, 2, "")
    assert line_of(None) is None


def test_words() -> None:
    assert [number(value) for value in (0.0, 3.0, 0.0123456, math.inf, -math.inf)] == ["0", "3", "0.0123", "∞", "-∞"]
    assert [share(part) for part in (0.0, 0.0002, 0.25, 0.9999, 1.0)] == ["0%", "<0.1%", "25.0%", ">99.9%", "100%"]
    assert decibel(38.04) == "38.0"
    assert result_type("bfloat16", (2, 3)) == "bf16[2,3]"


def test_thresholds_distinguish_large_integers() -> None:
    deviation = compare(torch.tensor([2**60]), torch.tensor([2**60 + 1]))
    assert (deviation.max_error, deviation.sqnr < 400) == (1, True)


def test_sqnr_of_tiny_numbers() -> None:
    deviation = compare(torch.tensor([1e-200], dtype=torch.float64), torch.tensor([2e-200], dtype=torch.float64))
    assert deviation.sqnr == pytest.approx(0)
