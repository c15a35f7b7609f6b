"""Random samples of all distributions, composed of uniform and standard normal samples, alike eagerly and in graphs.

The functions take tensors of any device, also traced ones. GE has nodes for uniform and normal samples only. No
document states how a device computes the other distributions, so that its samples may differ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Generator, Tensor

# Half of the spacing of uniform float32 samples.
_HALF_SPACING = 2.0**-25
_HALVES = (torch.float16, torch.bfloat16)
# Random bits in a uniform float32 sample.
_BITS = 24
_MOST_INTEGERS = 2**63


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype is torch.float64 else torch.float32


def _options(generator: Generator | None) -> dict[str, Any]:
    """The keyword argument of a generator; none for the default one, the only one that graphs have nodes for."""
    return {} if generator is None else {"generator": generator}


def _uniform01(x: Tensor, generator: Generator | None, dtype: torch.dtype) -> Tensor:
    return torch.rand(x.shape, dtype=dtype, device=x.device, **_options(generator))


def uniform(x: Tensor, low: float = 0, high: float = 1, *, generator: Generator | None = None) -> Tensor:
    """Uniform samples from [low, high)."""
    if (low, high) == (0, 1):
        return _uniform01(x, generator, x.dtype)
    return (_uniform01(x, generator, _wide(x.dtype)) * (high - low) + low).to(x.dtype)


def normal(x: Tensor, mean: Any = 0, std: Any = 1, *, generator: Generator | None = None) -> Tensor:
    """Normal samples of the given mean and standard deviation."""
    if not isinstance(mean, Tensor) and not isinstance(std, Tensor) and (mean, std) == (0, 1):
        return torch.randn(x.shape, dtype=x.dtype, device=x.device, **_options(generator))
    samples = torch.randn(x.shape, dtype=_wide(x.dtype), device=x.device, **_options(generator))
    return (samples * std + mean).to(x.dtype)


def normal_tensor_mean(mean: Tensor, std: Any = 1, *, generator: Generator | None = None) -> Tensor:
    """One normal sample for each mean."""
    like = mean + std if isinstance(std, Tensor) else mean
    return normal(like, mean, std, generator=generator)


def normal_tensor_std(mean: float, std: Tensor, *, generator: Generator | None = None) -> Tensor:
    """One normal sample for each standard deviation."""
    return normal(std, mean, std, generator=generator)


def log_normal(x: Tensor, mean: float = 1, std: float = 2, *, generator: Generator | None = None) -> Tensor:
    """Log-normal samples: the exponential function of normal ones."""
    return normal(x.to(_wide(x.dtype)), mean, std, generator=generator).exp().to(x.dtype)


def exponential(x: Tensor, lambd: float = 1, *, generator: Generator | None = None) -> Tensor:
    """Exponential samples of rate ``lambd``, by inversion: ``-log(1 - u) / lambd``."""
    return (_exponential1(x, generator) * (1 / lambd)).to(x.dtype)


def _exponential1(x: Tensor, generator: Generator | None) -> Tensor:
    """Exponential samples of rate 1, by inversion; never 0, although a uniform sample may be."""
    return (-torch.log1p(-_uniform01(x, generator, _wide(x.dtype)))).clamp(min=_HALF_SPACING)


def geometric(x: Tensor, p: float, *, generator: Generator | None = None) -> Tensor:
    """Geometric samples: the number of trials up to the first success, of probability ``p``."""
    if p == 1:
        return torch.ones_like(x)
    return (_exponential1(x, generator) * (-1 / math.log1p(-p))).ceil().to(x.dtype)


def cauchy(x: Tensor, median: float = 0, sigma: float = 1, *, generator: Generator | None = None) -> Tensor:
    """Cauchy samples, by inversion: the tangent of a uniform angle."""
    angle = (_uniform01(x, generator, _wide(x.dtype)) - 0.5) * math.pi
    return (angle.sin() / angle.cos() * sigma + median).to(x.dtype)


def bernoulli(x: Tensor, p: Any = None, *, generator: Generator | None = None) -> Tensor:
    """1 with the probability ``p``, by default that in ``x``, else 0."""
    probability = x if p is None else p
    samples = _uniform01(x, generator, torch.float32)
    return (samples < (probability.float() if isinstance(probability, Tensor) else probability)).to(x.dtype)


def bernoulli_p(x: Tensor, p: float = 0.5, *, generator: Generator | None = None) -> Tensor:
    """1 with the same probability for every element, else 0."""
    return bernoulli(x, p, generator=generator)


def multinomial(
    x: Tensor, num_samples: int, replacement: bool = False, *, generator: Generator | None = None
) -> Tensor:
    """Indices with probabilities proportional to ``x``.

    Without replacement they are those of the largest ``weight / exponential sample``; with it, those of uniform samples
    in the cumulative sum of the weights.
    """
    weights = x.to(_wide(x.dtype))
    if not replacement or num_samples == 1:
        return torch.topk(weights / _exponential1(x, generator), num_samples, -1).indices
    ends = weights.cumsum(-1)
    samples = torch.rand([*x.shape[:-1], num_samples], dtype=ends.dtype, device=x.device, **_options(generator))
    return torch.searchsorted(ends, samples * ends[..., -1:], right=True).clamp(max=x.size(-1) - 1)


def integers(
    low: int,
    high: int,
    size: Sequence[int],
    *,
    dtype: torch.dtype | None = None,
    device: Any = None,
    generator: Generator | None = None,
) -> Tensor:
    """Uniform integers from [low, high); ranges above 2**24 combine the bits of several float32 samples."""
    count = high - low
    if count >= _MOST_INTEGERS:
        raise NotImplementedError(f"random integers: at most 2**63 - 1 different ones can be drawn here, not {count}")

    def below(end: int) -> Tensor:
        return (torch.rand(size, dtype=torch.float32, device=device, **_options(generator)) * end).to(torch.int64)

    if count <= 2**_BITS:
        samples = below(count)
    else:
        samples = below(2**_BITS) * 2**_BITS + below(2**_BITS)
        if count > 2 ** (2 * _BITS):
            samples = samples * 2 ** (63 - 2 * _BITS) + below(2 ** (63 - 2 * _BITS))
        samples = samples % count
    return (samples + low).to(torch.int64 if dtype is None else dtype)


def native_dropout(x: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """Dropout and its mask. As in PyTorch, a call that drops nothing does not advance the generator."""
    if train is False or p == 0 or any(isinstance(size, int) and size == 0 for size in x.shape):
        return x.clone(), torch.ones(x.shape, dtype=torch.bool, device=x.device)
    kept = _uniform01(x, None, torch.float32) >= p
    return x * kept * (1 / (1 - p) if p < 1 else 0.0), kept


def rrelu_with_noise(
    x: Tensor, noise: Tensor, low: float = 0.125, high: float = 1 / 3, training: bool = False, generator: Any = None
) -> tuple[Tensor, Tensor]:
    """Randomised leaky ReLU and its slopes: for training, uniform samples from [low, high) where ``x <= 0``, else 1."""
    if not training:
        return torch.nn.functional.leaky_relu(x, (low + high) / 2), noise
    slopes = torch.where(x <= 0, uniform(x, low, high, generator=generator), torch.ones_like(x))
    return x * slopes, slopes
