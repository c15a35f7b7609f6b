"""Random tensors like others, and exponential numbers: drawn as those of a given size are."""

from __future__ import annotations

from typing import Any

import torch
from graph_quant.converters.decompositions import decomposes

aten = torch.ops.aten
# Half of the smallest distance of uniform numbers.
_BELOW_UNIFORM = 2.0**-25


def _like(x: torch.Tensor, dtype: torch.dtype | None) -> dict[str, Any]:
    return {"dtype": x.dtype if dtype is None else dtype, "device": x.device}


@decomposes(aten.rand_like.default)
def rand_like(x: torch.Tensor, *, dtype: torch.dtype | None = None, **_: Any) -> Any:
    """Uniform numbers."""
    return torch.rand(x.shape, **_like(x, dtype))


@decomposes(aten.randn_like.default)
def randn_like(x: torch.Tensor, *, dtype: torch.dtype | None = None, **_: Any) -> Any:
    """Normal numbers."""
    return torch.randn(x.shape, **_like(x, dtype))


@decomposes(aten.exponential.default)
def exponential(x: torch.Tensor, lambd: float = 1, generator: torch.Generator | None = None) -> Any:
    """Minus the logarithm of what uniform numbers leave of 1, over ``lambd``."""
    return NotImplemented if generator is not None else (_exponential(x) * (1 / lambd)).to(x.dtype)


def _exponential(x: torch.Tensor) -> torch.Tensor:
    """In float32, and never 0: a uniform number is 0 once in so many."""
    uniform = torch.rand(x.shape, dtype=torch.float32, device=x.device)
    return (-torch.log1p(-uniform)).clamp(min=_BELOW_UNIFORM)


@decomposes(aten.normal_functional.default)
def normal(x: torch.Tensor, mean: float = 0, std: float = 1, *, generator: torch.Generator | None = None) -> Any:
    """Normal numbers, stretched and moved."""
    if generator is not None:
        return NotImplemented
    return (torch.randn(x.shape, dtype=torch.float32, device=x.device) * std + mean).to(x.dtype)


@decomposes(aten.multinomial.default)
def multinomial(
    x: torch.Tensor, num_samples: int, replacement: bool = False, *, generator: torch.Generator | None = None
) -> Any:
    """The largest of the weights over exponential numbers; with replacement, where uniform ones stand among their sums.

    TorchAir's node is given the same for both.
    """
    if generator is not None:
        return NotImplemented
    weights = x.float()
    if not replacement or num_samples == 1:
        return torch.topk(weights / _exponential(x), num_samples, -1).indices
    ends = weights.cumsum(-1)
    places = torch.rand([*x.shape[:-1], num_samples], device=x.device) * ends[..., -1:]
    return torch.searchsorted(ends, places, right=True).clamp(max=x.size(-1) - 1)


@decomposes(aten.randint.low)
def randint_between(low: int, high: int, size: Any, *, dtype: Any = torch.int64, device: Any = None, **_: Any) -> Any:
    """Integers from ``low`` on: as many as there are below ``high``, moved."""
    return torch.randint(high - low, size, dtype=dtype, device=device) + low


@decomposes(aten.randint_like.default)
def randint_like(x: torch.Tensor, high: int, *, dtype: torch.dtype | None = None, **_: Any) -> Any:
    """Integers below ``high``."""
    return torch.randint(high, x.shape, **_like(x, dtype))


@decomposes(aten.randint_like.low_dtype)
def randint_like_between(x: torch.Tensor, low: int, high: int, *, dtype: torch.dtype | None = None, **_: Any) -> Any:
    """Integers from ``low`` on, below ``high``."""
    return torch.randint(high - low, x.shape, **_like(x, dtype)) + low
