"""Native code for blocks of narrow floats against the same in torch: every bfloat16 and float16, NaN, tails, slices."""

from __future__ import annotations

import pytest
import torch
from graph_quant import native
from graph_quant.narrow_floats import FLOOR, FORMATS, RINT, NarrowFloat, encode
from graph_quant.reference.half_products import multiply
from graph_quant.reference.matmul import narrow_products
from graph_quant.reference.matmul.narrow_products import carried, multiply_mx, multiply_narrow, widen
from graph_quant.reference.native_blocks import encode_blocks, largest_of_blocks

pytestmark = pytest.mark.skipif(
    not native.can_encode_blocks(torch.zeros(1)), reason="the processor has no AVX-512, or nothing is built"
)
PATTERNS = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16)


@pytest.fixture(scope="module", params=[torch.float16, torch.bfloat16, torch.float32])
def elements(request) -> torch.Tensor:
    """Rows with a last block of 21 elements."""
    if request.param == torch.float32:
        generator = torch.Generator().manual_seed(0)
        bits = torch.randint(-(2**31), 2**31, (600, 117), generator=generator).to(torch.int32)
        return bits.view(torch.float32)
    shuffled = PATTERNS[torch.randperm(PATTERNS.numel(), generator=torch.Generator().manual_seed(0))]
    return shuffled[: 560 * 117].view(560, 117).view(request.param)


@pytest.mark.parametrize("mode", [RINT, FLOOR])
@pytest.mark.parametrize("target", FORMATS, ids=lambda target: target.name)
def test_codes_are_those_of_torch(elements: torch.Tensor, target: NarrowFloat, mode: str) -> None:
    generator = torch.Generator().manual_seed(1)
    powers = torch.randint(-140, 128, (elements.size(0), 4), generator=generator).float().exp2()
    powers[::7] = torch.tensor([0.0, torch.nan, 1.0, torch.inf])
    values = elements.float() * powers.repeat_interleave(32, 1)[:, : elements.size(1)]
    expected = encode(values, target, mode).view(torch.uint8)
    assert torch.equal(encode_blocks(elements, powers, target, mode), expected)


def test_largest_magnitudes_are_those_of_torch(elements: torch.Tensor) -> None:
    expected = torch.nn.functional.pad(elements, (0, 11)).unflatten(1, (-1, 32)).abs().amax(-1).float()
    largest = largest_of_blocks(elements)
    assert torch.equal(largest.isnan(), expected.isnan())
    assert torch.equal(largest.nan_to_num(1.0), expected.nan_to_num(1.0))


OPERANDS = {
    "float8_e4m3fn": torch.float8_e4m3fn,
    "float8_e5m2": torch.float8_e5m2,
    "hifloat8": torch.uint8,
    "float4_e2m1": torch.uint8,
}


def operand(name: str, rows: int, columns: int, seed: int) -> torch.Tensor:
    """A matrix of any codes in its first row, and finite numbers below it; without that row where seed is not 0."""
    generator = torch.Generator().manual_seed(seed)
    width = columns // 2 if name.startswith("float4") else columns
    codes = torch.randint(0, 256, (rows, width), generator=generator).to(torch.uint8)
    if not name.startswith("float4"):
        codes[not seed :] &= 0xBF  # without the highest bit of the exponent
        codes[not seed :][codes[not seed :] == 0x80] = 1
    return carried(codes.view(OPERANDS[name]), name)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("name", OPERANDS)
def test_products_have_the_bits_of_decoded_operands(name: str, transposed: bool, monkeypatch) -> None:
    monkeypatch.setattr(narrow_products, "_SLICE", 1 << 12)
    x1 = operand(name, 5, 100, 0)
    x2 = operand(name, 198, 100, 1).t() if transposed else operand(name, 100, 198, 1)
    expected = multiply(widen(x1).bfloat16(), widen(x2).bfloat16())
    result = multiply_narrow(x1, x2)
    assert torch.equal(result.isnan(), expected.isnan())
    assert torch.equal(result.nan_to_num(3.0), expected.nan_to_num(3.0))
    assert result[1:].isfinite().all()


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2", "float4_e2m1"])
def test_mx_products_have_the_bits_of_scaled_operands(name: str, transposed: bool, monkeypatch) -> None:
    monkeypatch.setattr(narrow_products, "_SLICE", 1 << 12)
    generator = torch.Generator().manual_seed(2)
    x1 = operand(name, 5, 164, 0)
    x2 = operand(name, 98, 164, 1).t() if transposed else operand(name, 164, 98, 1)
    left, right = (torch.randint(100, 150, shape, generator=generator) for shape in ((5, 3, 2), (3, 98, 2)))
    scales = [codes.to(torch.uint8).view(torch.float8_e8m0fnu) for codes in (left, right)]
    result = multiply_mx(x1, x2, *scales)
    monkeypatch.setattr(narrow_products, "_can_decode", lambda *_: False)
    expected = multiply_mx(x1, x2, *scales)
    assert torch.equal(result.isnan(), expected.isnan())
    assert torch.equal(result.nan_to_num(3.0), expected.nan_to_num(3.0))
    assert result[1:].isfinite().all()
