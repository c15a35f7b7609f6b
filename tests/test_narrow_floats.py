"""Narrow floats against ml_dtypes and en_dtypes: every code, and every bfloat16 and float16 pattern as input."""

import ml_dtypes
import numpy as np
import pytest
import torch
from graph_quant.narrow_floats import (
    E1M2,
    E2M1,
    E4M3,
    E5M2,
    FLOOR,
    FORMATS,
    RINT,
    ROUND,
    NarrowFloat,
    _encode_by_bits,
    decode,
    decode_hif8,
    encode,
    encode_hif8,
    find_format,
    pack_pairs,
    unpack_pairs,
)

TRUTH = {E4M3: ml_dtypes.float8_e4m3fn, E5M2: ml_dtypes.float8_e5m2, E2M1: ml_dtypes.float4_e2m1fn}


def _finite(target: NarrowFloat) -> torch.Tensor:
    """Every finite value, negative ones from the second half."""
    positive = torch.arange(target.max_code + 1, dtype=torch.uint8)
    return torch.cat([positive, positive | 1 << (target.bits - 1)])


@pytest.fixture(scope="module")
def inputs() -> torch.Tensor:
    """Every bfloat16 and float16, and the float32 neighbours of the midpoints of every format."""
    patterns = torch.arange(65536, dtype=torch.int32).to(torch.int16)
    halves = torch.cat([patterns.view(torch.bfloat16).float(), patterns.view(torch.float16).float()])
    near = []
    for target in FORMATS:
        values = decode(_finite(target), target).sort().values
        middle = (values[1:] + values[:-1]) / 2
        infinity = torch.tensor(torch.inf)
        near += [middle, torch.nextafter(middle, infinity), torch.nextafter(middle, -infinity)]
    return torch.cat([halves, *near])


@pytest.mark.parametrize("target", TRUTH, ids=lambda target: target.name)
def test_codes_decode_as_ml_dtypes_says(target: NarrowFloat) -> None:
    codes = torch.arange(1 << target.bits, dtype=torch.uint8)
    expected = codes.numpy().view(TRUTH[target]).astype(np.float32)
    np.testing.assert_array_equal(decode(codes, target).numpy(), expected)
    assert target.largest == float(ml_dtypes.finfo(TRUTH[target]).max)


@pytest.mark.parametrize("target", TRUTH, ids=lambda target: target.name)
def test_rounding_half_to_even_is_that_of_ml_dtypes(target: NarrowFloat, inputs: torch.Tensor) -> None:
    kept = inputs[inputs.isfinite()].clamp(-target.largest, target.largest)
    expected = kept.numpy().astype(TRUTH[target]).view(np.uint8)
    for codes in (encode(kept, target), _encode_by_bits(kept, target, RINT)):
        np.testing.assert_array_equal(codes.view(torch.uint8).numpy(), expected)


@pytest.mark.parametrize("mode", [RINT, ROUND, FLOOR])
@pytest.mark.parametrize("target", FORMATS, ids=lambda target: target.name)
def test_rounding_is_to_the_nearest_value_of_the_table(target: NarrowFloat, mode: str, inputs: torch.Tensor) -> None:
    values = inputs[inputs.isfinite()].clamp(-target.largest, target.largest).double().numpy()
    table = np.unique(decode(_finite(target), target).double().numpy())
    below = table[np.searchsorted(table, values, side="right") - 1]
    above = table[np.searchsorted(table, values, side="left")]
    down, up = values - below, above - values
    nearest = np.where(down < up, below, above)
    if mode == FLOOR:
        nearest = below
    elif mode == ROUND:
        nearest = np.where(down == up, np.where(values > 0, above, below), nearest)
    else:
        even = (_encode_by_bits(torch.from_numpy(below).float(), target, RINT).view(torch.uint8).numpy() & 1) == 0
        nearest = np.where(down == up, np.where(even, below, above), nearest)
    rounded = decode(encode(torch.from_numpy(values).float(), target, mode), target)
    np.testing.assert_array_equal(rounded.double().numpy(), nearest)


@pytest.mark.parametrize("mode", [RINT, ROUND, FLOOR])
@pytest.mark.parametrize("target", FORMATS, ids=lambda target: target.name)
def test_saturation_and_nan(target: NarrowFloat, mode: str) -> None:
    largest = target.largest
    values = torch.tensor([torch.inf, -torch.inf, torch.nan, 2 * largest, -3e38, -0.0, 1e-40, 3e38])
    expected = [largest, -largest, 0.0, largest, -largest, -0.0, 0.0, largest]
    found = decode(encode(values, target, mode), target)
    assert found.tolist() == expected
    assert found.signbit().tolist() == torch.tensor(expected).signbit().tolist()


@pytest.mark.parametrize("target", [E2M1, E1M2], ids=lambda target: target.name)
def test_four_bits_have_the_values_of_their_documents(target: NarrowFloat) -> None:
    known = {E2M1: [0, 0.5, 1, 1.5, 2, 3, 4, 6], E1M2: [0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75]}[target]
    assert decode(torch.arange(8, dtype=torch.uint8), target).tolist() == known


def test_pairs_have_the_first_code_in_the_low_half() -> None:
    codes = torch.arange(16, dtype=torch.uint8).reshape(2, 8)
    packed = pack_pairs(codes)
    assert packed[0].tolist() == [0x10, 0x32, 0x54, 0x76]
    assert torch.equal(unpack_pairs(packed), codes)


def test_numbers_name_formats() -> None:
    assert [find_format(number) for number in (23, 24, 291, 292, 296, 297)] == [E5M2, E4M3, E5M2, E4M3, E2M1, E1M2]
    assert find_format(torch.float8_e4m3fn) is E4M3
    assert find_format(1) is find_format(None) is find_format(torch.int8) is None


# The magnitudes of HiFloat8 by the number of exponent bits, from its paper: exponents and steps of a binade.
BINADES = {0: ([0], 8), 1: ([1, -1], 8), 2: ([2, 3, -2, -3], 8), 3: ([4, 5, 6, 7, -4, -5, -6, -7], 4)}
BINADES[4] = ([*range(8, 16), *range(-8, -16, -1)], 2)


def test_hif8_has_the_values_of_its_paper() -> None:
    subnormal = [2.0**exponent for exponent in range(-22, -15)]
    normal = [
        2.0**exponent * (1 + step / steps)
        for exponents, steps in BINADES.values()
        for exponent in exponents
        for step in range(steps)
    ]
    decoded = decode_hif8(torch.arange(128, dtype=torch.uint8))
    assert decoded[0] == 0
    assert decoded[0x6F] == torch.inf
    assert sorted(decoded[decoded.isfinite()].tolist()) == sorted({0.0, *subnormal, *normal} - {1.5 * 2.0**15})
    negative = decode_hif8(torch.arange(128, 256).to(torch.uint8))
    assert negative[0].isnan()
    assert torch.equal(negative[1:], -decoded[1:])


def test_hif8_rounds_half_away_from_zero(inputs: torch.Tensor) -> None:
    codes = torch.arange(256).to(torch.uint8)
    table = decode_hif8(codes)
    table = table[table.isfinite()].double().unique()
    values = inputs[inputs.isfinite()].double().clamp(-32768, 32768)
    up = torch.searchsorted(table, values).clamp(max=len(table) - 1)
    above, below = table[up], table[(up - 1).clamp(min=0)]
    below = torch.where(above == values, above, below)
    nearest = torch.where(values - below < above - values, below, above)
    nearest = torch.where(values - below == above - values, torch.where(values > 0, above, below), nearest)
    assert torch.equal(decode_hif8(encode_hif8(values.float())).double(), nearest)


def test_hif8_overflow_and_nan() -> None:
    values = torch.tensor([40959.0, 40960.0, -40960.0, torch.inf, torch.nan, -0.0, -1e-9])
    assert encode_hif8(values).tolist() == [0x6E, 0x6E, 0xEE, 0x6E, 0x80, 0, 0]
    assert encode_hif8(values, saturate=False).tolist() == [0x6E, 0x6F, 0xEF, 0x6F, 0x80, 0, 0]
