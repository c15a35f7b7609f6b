"""Random samples: the distributions of eager mode, from the uniform and normal samples that GE has nodes for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from graph_quant.converters.decompositions import decomposes
from graph_quant.reference import distributions

aten = torch.ops.aten


def _decompose_default_rng(sample: Callable[..., Any], *overloads: Any) -> None:
    """Decompose overloads into a distribution, for calls without a generator."""

    def decomposed(*args: Any, generator: torch.Generator | None = None, **kwargs: Any) -> Any:
        return NotImplemented if generator is not None else sample(*args, **kwargs)

    decomposes(*overloads)(decomposed)


_decompose_default_rng(distributions.uniform, aten.uniform.default)
_decompose_default_rng(distributions.normal, aten.normal_functional.default)
_decompose_default_rng(distributions.normal_tensor_mean, aten.normal.Tensor_float, aten.normal.Tensor_Tensor)
_decompose_default_rng(distributions.normal_tensor_std, aten.normal.float_Tensor)
_decompose_default_rng(distributions.log_normal, aten.log_normal.default)
_decompose_default_rng(distributions.exponential, aten.exponential.default)
_decompose_default_rng(distributions.geometric, aten.geometric.default)
_decompose_default_rng(distributions.cauchy, aten.cauchy.default)
_decompose_default_rng(distributions.multinomial, aten.multinomial.default)
_decompose_default_rng(distributions.rrelu_with_noise, aten.rrelu_with_noise_functional.default)
decomposes(aten.native_dropout.default)(distributions.native_dropout)


def _like(x: torch.Tensor, dtype: torch.dtype | None) -> dict[str, Any]:
    return {"dtype": x.dtype if dtype is None else dtype, "device": x.device}


@decomposes(aten.rand_like.default)
def rand_like(x: torch.Tensor, *, dtype: torch.dtype | None = None, **_: Any) -> Any:
    """Uniform samples from [0, 1)."""
    return torch.rand(x.shape, **_like(x, dtype))


@decomposes(aten.randn_like.default)
def randn_like(x: torch.Tensor, *, dtype: torch.dtype | None = None, **_: Any) -> Any:
    """Standard normal samples."""
    return torch.randn(x.shape, **_like(x, dtype))


@decomposes(aten.normal.float_float)
def normal_of_size(
    mean: float, std: float, size: Any, *, generator: Any = None, dtype: Any = None, device: Any = None, **_: Any
) -> Any:
    """Normal samples with a mean and standard deviation."""
    if generator is not None:
        return NotImplemented
    return distributions.normal(torch.empty(size, dtype=dtype, device=device), mean, std)


@decomposes(aten.randint.default)
def randint(high: int, size: Any, *, dtype: Any = torch.int64, device: Any = None, **_: Any) -> Any:
    """Integers from [0, high)."""
    return distributions.integers(0, high, size, dtype=dtype, device=device)


@decomposes(aten.randint.low)
def randint_between(low: int, high: int, size: Any, *, dtype: Any = torch.int64, device: Any = None, **_: Any) -> Any:
    """Integers from [low, high)."""
    return distributions.integers(low, high, size, dtype=dtype, device=device)


@decomposes(aten.randint_like.default)
def randint_like(x: torch.Tensor, high: int, *, dtype: torch.dtype | None = None, **_: Any) -> Any:
    """Integers from [0, high)."""
    return distributions.integers(0, high, x.shape, **_like(x, dtype))


@decomposes(aten.randint_like.low_dtype)
def randint_like_between(x: torch.Tensor, low: int, high: int, *, dtype: torch.dtype | None = None, **_: Any) -> Any:
    """Integers from [low, high)."""
    return distributions.integers(low, high, x.shape, **_like(x, dtype))


@decomposes(aten.randperm.default)
def randperm(n: int, *, dtype: Any = torch.int64, device: Any = None, **_: Any) -> Any:
    """An empty permutation, which TorchAir refuses; sampling keeps the RNG offset as in eager mode."""
    if not isinstance(n, int) or n:
        return NotImplemented
    return torch.rand((0,), device=device).to(torch.int64 if dtype is None else dtype)
