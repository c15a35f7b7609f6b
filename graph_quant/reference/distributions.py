"""Random numbers of any distribution from even and normal ones: one composition for eager calls and for graphs.

They take tensors of any device, also traced ones. GE has nodes for even and normal numbers; the others no document
states, so that those of a device may be others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Generator, Tensor

# Half of the smallest distance of even numbers.
_BELOW_EVEN = 2.0**-25
_HALVES = (torch.float16, torch.bfloat16)
# So many bits of an integer come from an even number of float32.
_BITS = 24
_MOST_INTEGERS = 2**63


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype is torch.float64 else torch.float32


def _given(generator: Generator | None) -> dict[str, Any]:
    """A graph has nodes for the generator of the device alone, and for calls that do not speak of one."""
    return {} if generator is None else {"generator": generator}


def _even(x: Tensor, generator: Generator | None, dtype: torch.dtype) -> Tensor:
    return torch.rand(x.shape, dtype=dtype, device=x.device, **_given(generator))


def uniform(x: Tensor, low: float = 0, high: float = 1, *, generator: Generator | None = None) -> Tensor:
    """Even numbers from ``low`` on, below ``high``."""
    if (low, high) == (0, 1):
        return _even(x, generator, x.dtype)
    return (_even(x, generator, _wide(x.dtype)) * (high - low) + low).to(x.dtype)


def normal(x: Tensor, mean: Any = 0, std: Any = 1, *, generator: Generator | None = None) -> Tensor:
    """Normal numbers, stretched and moved."""
    if not isinstance(mean, Tensor) and not isinstance(std, Tensor) and (mean, std) == (0, 1):
        return torch.randn(x.shape, dtype=x.dtype, device=x.device, **_given(generator))
    drawn = torch.randn(x.shape, dtype=_wide(x.dtype), device=x.device, **_given(generator))
    return (drawn * std + mean).to(x.dtype)


def normal_around(mean: Tensor, std: Any = 1, *, generator: Generator | None = None) -> Tensor:
    """One normal number for each mean."""
    like = mean + std if isinstance(std, Tensor) else mean
    return normal(like, mean, std, generator=generator)


def normal_as_wide(mean: float, std: Tensor, *, generator: Generator | None = None) -> Tensor:
    """One normal number for each width."""
    return normal(std, mean, std, generator=generator)


def log_normal(x: Tensor, mean: float = 1, std: float = 2, *, generator: Generator | None = None) -> Tensor:
    """Powers of e whose exponents are normal."""
    return normal(x.to(_wide(x.dtype)), mean, std, generator=generator).exp().to(x.dtype)


def exponential(x: Tensor, lambd: float = 1, *, generator: Generator | None = None) -> Tensor:
    """Minus the logarithm of what even numbers leave of 1, over ``lambd``."""
    return (_waits(x, generator) * (1 / lambd)).to(x.dtype)


def _waits(x: Tensor, generator: Generator | None) -> Tensor:
    """Never 0: an even number is 0 once in so many."""
    return (-torch.log1p(-_even(x, generator, _wide(x.dtype)))).clamp(min=_BELOW_EVEN)


def geometric(x: Tensor, p: float, *, generator: Generator | None = None) -> Tensor:
    """How many tries it takes, each of which succeeds with ``p``."""
    if p == 1:
        return torch.ones_like(x)
    return (_waits(x, generator) * (-1 / math.log1p(-p))).ceil().to(x.dtype)


def cauchy(x: Tensor, median: float = 0, sigma: float = 1, *, generator: Generator | None = None) -> Tensor:
    """Where rays of even directions meet a line."""
    turned = (_even(x, generator, _wide(x.dtype)) - 0.5) * math.pi
    return (turned.sin() / turned.cos() * sigma + median).to(x.dtype)


def bernoulli(x: Tensor, p: Any = None, *, generator: Generator | None = None) -> Tensor:
    """1 where an even number is below the probability, by default ``x`` itself."""
    chance = x if p is None else p
    drawn = _even(x, generator, torch.float32)
    return (drawn < (chance.float() if isinstance(chance, Tensor) else chance)).to(x.dtype)


def coins(x: Tensor, p: float = 0.5, *, generator: Generator | None = None) -> Tensor:
    """1 with one probability everywhere."""
    return bernoulli(x, p, generator=generator)


def multinomial(
    x: Tensor, num_samples: int, replacement: bool = False, *, generator: Generator | None = None
) -> Tensor:
    """The largest of the weights over waits; with replacement, where even numbers stand among their sums."""
    weights = x.to(_wide(x.dtype))
    if not replacement or num_samples == 1:
        return torch.topk(weights / _waits(x, generator), num_samples, -1).indices
    ends = weights.cumsum(-1)
    places = torch.rand([*x.shape[:-1], num_samples], dtype=ends.dtype, device=x.device, **_given(generator))
    return torch.searchsorted(ends, places * ends[..., -1:], right=True).clamp(max=x.size(-1) - 1)


def integers(
    low: int,
    high: int,
    size: Sequence[int],
    *,
    dtype: torch.dtype | None = None,
    device: Any = None,
    generator: Generator | None = None,
) -> Tensor:
    """Even integers from ``low`` on, below ``high``; where float32 cannot tell them all apart, of several draws."""
    count = high - low
    if count >= _MOST_INTEGERS:
        raise NotImplementedError(f"random integers: at most 2**63 - 1 different ones can be drawn here, not {count}")

    def below(most: int) -> Tensor:
        return (torch.rand(size, dtype=torch.float32, device=device, **_given(generator)) * most).to(torch.int64)

    if count <= 2**_BITS:
        drawn = below(count)
    else:
        drawn = below(2**_BITS) * 2**_BITS + below(2**_BITS)
        if count > 2 ** (2 * _BITS):
            drawn = drawn * 2 ** (63 - 2 * _BITS) + below(2 ** (63 - 2 * _BITS))
        drawn = drawn % count
    return (drawn + low).to(torch.int64 if dtype is None else dtype)


def native_dropout(x: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """``x`` where an even number is above ``p``, enlarged; and where that is. For nothing PyTorch draws nothing."""
    if train is False or p == 0 or any(isinstance(size, int) and size == 0 for size in x.shape):
        return x.clone(), torch.ones(x.shape, dtype=torch.bool, device=x.device)
    kept = _even(x, None, torch.float32) >= p
    return x * kept * (1 / (1 - p) if p < 1 else 0.0), kept


def leaky(
    x: Tensor, noise: Tensor, low: float = 0.125, high: float = 1 / 3, training: bool = False, generator: Any = None
) -> tuple[Tensor, Tensor]:
    """``x``, and what it is multiplied by: in training, where it is not above 0, even numbers between two slopes."""
    if not training:
        return torch.nn.functional.leaky_relu(x, (low + high) / 2), noise
    slopes = torch.where(x <= 0, uniform(x, low, high, generator=generator), torch.ones_like(x))
    return x * slopes, slopes
