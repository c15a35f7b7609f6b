"""Native attention against the formula in float64: sizes around its tiles, masks, positions, fully masked rows.

Sums of float32 come in an order of their own, so that results are held to a bound. A score is off by its channels' sum
of rounded products, a weight by the exponential of that and by its rounding to half precision, and a result by all
weights of its row times the largest value.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from graph_quant import native
from graph_quant.native import HiddenKeys

UNIT = 2.0**-24
ROUNDED = {torch.float32: 2.0**-24, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}
GENERATOR = torch.Generator().manual_seed(0)
LEAST = float(np.finfo(np.float32).min)
pytestmark = pytest.mark.skipif(
    not native.can_attend(torch.zeros(1, 1, 1)), reason="the processor has no AVX-512, or nothing is built"
)
# Heads, heads of keys, queries, keys, channels, channels of values: around 16 lanes, tiles of 8 and 6 rows, blocks of
# 48 rows, chunks of 256 keys, four vectors of channels, and scores that fill the cache with few rows.
SIZES = [
    (1, 1, 1, 1, 1, 1), (2, 1, 1, 17, 16, 16), (2, 2, 7, 16, 15, 17), (4, 2, 9, 33, 64, 64), (6, 2, 49, 50, 24, 80),
    (2, 2, 130, 130, 128, 128), (3, 3, 5, 257, 72, 192), (1, 1, 3, 6000, 8, 8), (8, 1, 1, 300, 128, 65),
]  # fmt: skip


def attend(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, hidden: HiddenKeys, copies: int = 1
) -> list[torch.Tensor]:
    out = torch.full((*q.shape[:2], v.size(2)), 7.0, dtype=q.dtype)
    rows = [torch.full((*q.shape[:2], copies), 7.0) for _ in range(2)]
    native.attend(q, k, v, 0.25, hidden, out, *rows)
    return [out, *rows]


def operands(size: tuple[int, ...], dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    heads, key_heads, queries, keys, channels, value_channels = size
    shapes = (heads, queries, channels), (key_heads, keys, channels), (key_heads, keys, value_channels)
    q, k, v = (torch.randn(shape, generator=GENERATOR).to(dtype) for shape in shapes)
    return q, k, v


def hidden_by(hidden: HiddenKeys, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Return what is masked by position, and what is masked at all."""
    distance = np.arange(shape[2]) - np.arange(shape[1])[:, None]
    by_position = np.zeros(shape, dtype=bool)
    by_position |= (distance < hidden.first) if hidden.first is not None else False
    by_position |= (distance > hidden.last) if hidden.last is not None else False
    return by_position, by_position if hidden.mask is None else by_position | hidden.mask.numpy().astype(bool)


def stated(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, hidden: HiddenKeys) -> tuple[np.ndarray, ...]:
    group = q.size(0) // k.size(0)
    wide_q, wide_k, wide_v = (operand.double().numpy() for operand in (q, k, v))
    wide_k, wide_v = wide_k.repeat(group, 0), wide_v.repeat(group, 0)
    scores = wide_q @ wide_k.transpose(0, 2, 1) * 0.25
    by_position, away = hidden_by(hidden, scores.shape)
    scores[away] = LEAST
    largest = scores.max(-1, keepdims=True)
    weights = np.exp(scores - largest)
    total = weights.sum(-1, keepdims=True)
    out = (weights / total) @ wide_v
    out[(away if hidden.gives_zeros else by_position).all(-1)] = 0
    return out, largest, total


def agrees(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, hidden: HiddenKeys) -> None:
    out, largest, total = (operand.double().numpy() for operand in attend(q, k, v, hidden))
    wanted, wanted_largest, wanted_total = stated(q, k, v, hidden)
    score = (q.size(2) + 2) * UNIT * 0.25 * q.size(2) * float(q.abs().max()) * float(k.abs().max())
    assert np.allclose(largest, wanted_largest, rtol=UNIT, atol=score)
    weight = 2 * score + (k.size(1) + 4) * UNIT
    assert np.allclose(total, wanted_total, rtol=weight, atol=0)
    bound = (2 * weight + 2 * ROUNDED[q.dtype]) * float(v.abs().max())
    assert np.abs(out - wanted).max() <= bound


@pytest.mark.parametrize("dtype", ROUNDED)
@pytest.mark.parametrize("size", SIZES)
def test_every_size(size: tuple[int, ...], dtype: torch.dtype) -> None:
    heads, _, queries, keys, *_ = size
    q, k, v = operands(size, dtype)
    mask = torch.rand(heads, queries, keys, generator=GENERATOR) < 0.5
    for hidden in (
        HiddenKeys(),
        HiddenKeys(last=0),
        HiddenKeys(mask, first=-3, last=keys - queries),
        HiddenKeys(mask[:1]),
    ):
        agrees(q, k, v, hidden)


THIRDS = torch.arange(20).remainder(3).eq(0)[None, :, None].expand(1, 20, 40)
MASKS: dict[str, HiddenKeys] = {
    "no key before any": HiddenKeys(last=-2),
    "none after the last": HiddenKeys(first=30),
    "a band that is empty": HiddenKeys(first=2, last=1),
    "a mask of all": HiddenKeys(torch.ones(1, 20, 40, dtype=torch.bool)),
    "a mask of all that gives zeros": HiddenKeys(torch.ones(1, 20, 40, dtype=torch.uint8), gives_zeros=True),
    "a mask of some rows, and a band": HiddenKeys(THIRDS, -1, 4),
    "a mask laid out otherwise": HiddenKeys(torch.rand(40, 20, generator=GENERATOR).lt(0.5).t()[None]),
    "a mask of the first": HiddenKeys(torch.arange(40).lt(33).expand(1, 20, 40)),
    "a mask of the last": HiddenKeys(torch.arange(40).gt(16).expand(1, 20, 40).contiguous()),
    "a mask of one end after the other": HiddenKeys(torch.ones(20, 40).triu(3).bool()[None], first=1),
    "a mask of larger numbers": HiddenKeys(torch.randint(0, 2, (1, 20, 40), generator=GENERATOR, dtype=torch.int32)),
}


@pytest.mark.parametrize("name", MASKS)
def test_rows_with_few_or_no_keys(name: str) -> None:
    agrees(*operands((4, 2, 20, 40, 32, 48), torch.float32), MASKS[name])


FIRST = torch.arange(90).gt(5).expand(1, 4, 90)


@pytest.mark.parametrize(
    "hidden", [HiddenKeys(last=0), HiddenKeys(FIRST), HiddenKeys(FIRST.flip(-1))], ids=["position", "end", "start"]
)
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_masked_value_that_is_not_finite_gives_nan(value: float, hidden: HiddenKeys) -> None:
    q, k, v = operands((1, 1, 4, 90, 16, 16), torch.bfloat16)
    v[0, 40, 3] = value
    out, *_ = attend(q, k, v, hidden)
    assert out[..., 3].isnan().all()
    assert not out[..., 4:].isnan().any()


@pytest.mark.parametrize("seen", [1, 16, 17, 63, 64, 65, 128, 200])
def test_keys_masked_at_the_end_are_skipped(seen: int) -> None:
    """A mask is read 64 bytes at a time; the result is bitwise that of the keys that are not masked."""
    q, k, v = operands((4, 2, 11, 200, 64, 64), torch.float16)
    k[:, seen:] = float("nan")
    mask = torch.arange(200).ge(seen).expand(4, 11, 200)
    for masked, alone in zip(
        attend(q, k, v, HiddenKeys(mask)), attend(q, k[:, :seen], v[:, :seen], HiddenKeys()), strict=True
    ):
        assert torch.equal(masked, alone)


def test_nan_score_affects_its_row_only() -> None:
    q, k, v = operands((1, 1, 20, 40, 16, 16), torch.float32)
    q[0, 5, 1] = float("nan")
    out, largest, total = attend(q, k, v, HiddenKeys())
    for tensor in (out, largest, total):
        assert tensor[0, 5].isnan().all()
        assert not tensor[0, [4, 6]].isnan().any()


def test_strides_and_threads_do_not_change_bits() -> None:
    q, k, v = operands((4, 2, 130, 140, 64, 64), torch.bfloat16)
    plain = attend(q, k, v, HiddenKeys(last=10), copies=8)
    apart: Any = [tensor.transpose(0, 1).contiguous().transpose(0, 1) for tensor in (q, k, v)]
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        others = attend(*apart, HiddenKeys(last=10), copies=8)
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(one, other) for one, other in zip(plain, others, strict=True))
    assert torch.equal(plain[1], plain[1][..., :1].expand(-1, -1, 8))


def test_can_attend_rejects() -> None:
    x = torch.zeros(1, 2, 4)
    assert not native.can_attend(x, x.double(), x)
    assert not native.can_attend(x.transpose(1, 2), x, x)
    assert not native.can_attend(x[:, :0], x, x)
    assert not native.can_attend(x.int(), x.int(), x.int())
