"""linspace, arange, window functions and FFT frequencies."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from graph_quant.converters.decompositions import decomposes
from graph_quant.converters.lowering import converts, in_type
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import DataType, Tensor

aten = torch.ops.aten
_FLOATS = (DataType.DT_FLOAT, DataType.DT_FLOAT16, DataType.DT_BF16)
# Integers up to this, and their sums, are exact in every dtype but bfloat16.
_EXACT = 2**10


@converts(aten.linspace.default)
def linspace(start: Any, end: Any, steps: Any, *, meta_outputs: Any = None, **_: Any) -> Tensor:
    """LinSpace in a float dtype: TorchAir computes it in integers for integer bounds."""
    inner = DataType.DT_FLOAT if meta_outputs.dtype in _FLOATS else DataType.DT_DOUBLE
    values = ge.LinSpace(*in_type(inner, start, end), in_type(DataType.DT_INT32, steps))
    return in_type(meta_outputs.dtype, values)  # type: ignore[no-any-return]


@converts(aten.arange.start_step)
def arange(start: Any, end: Any, step: Any = 1, *, meta_outputs: Any = None, **_: Any) -> Tensor:
    """Range; fractions are computed in float64, as in ATen: rounded first, the length could change."""
    dtype = meta_outputs.dtype
    exact = all(isinstance(value, int) and abs(value) <= _EXACT for value in (start, end, step))
    inner = DataType.DT_DOUBLE if dtype in _FLOATS and not exact else dtype
    return in_type(dtype, ge.Range(*in_type(inner, start, end, step)))  # type: ignore[no-any-return]


def _options(dtype: torch.dtype | None, device: Any) -> dict[str, Any]:
    return {"dtype": torch.get_default_dtype() if dtype is None else dtype, "device": device}


def _window(*overloads: Any) -> Callable[..., Any]:
    """Register a window function of sample positions; a periodic window is cut from one that is one sample longer."""

    def register(shape: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        @decomposes(*overloads)
        def window(
            length: int,
            periodic: bool = True,
            *coefficients: float,
            dtype: torch.dtype | None = None,
            device: Any = None,
            **_: Any,
        ) -> Any:
            options = _options(dtype, device)
            if length == 1:
                return torch.ones(1, **options)
            period = length + 1 if periodic else length
            return shape(torch.arange(period, **options), period - 1, *coefficients).narrow(0, 0, length).clone()

        return shape

    return register


@_window(aten.bartlett_window.default, aten.bartlett_window.periodic)
def _bartlett(positions: torch.Tensor, last: int) -> torch.Tensor:
    slope = positions * (2.0 / last)
    return torch.where(positions < last // 2 + 1, slope, slope * -1 + 2)


@_window(aten.blackman_window.default, aten.blackman_window.periodic)
def _blackman(positions: torch.Tensor, last: int) -> torch.Tensor:
    angles = positions * (math.pi / last)
    return (angles * 4).cos() * 0.08 - (angles * 2).cos() * 0.5 + 0.42


@_window(
    aten.hamming_window.default,
    aten.hamming_window.periodic,
    aten.hamming_window.periodic_alpha,
    aten.hamming_window.periodic_alpha_beta,
)
def _hamming(positions: torch.Tensor, last: int, alpha: float = 0.54, beta: float = 0.46) -> torch.Tensor:
    return (positions * (2.0 * math.pi / last)).cos() * -beta + alpha


@_window(aten.hann_window.default, aten.hann_window.periodic)
def _hann(positions: torch.Tensor, last: int) -> torch.Tensor:
    return _hamming(positions, last, 0.5, 0.5)


@decomposes(aten.fft_fftfreq.default)
def fftfreq(n: int, d: float = 1.0, *, dtype: torch.dtype | None = None, device: Any = None, **_: Any) -> Any:
    """The frequencies of a transform; the upper half is negative."""
    positions = torch.arange(n, **_options(dtype, device))
    return torch.where(positions < (n + 1) // 2, positions, positions - n) * (1.0 / (n * d))


@decomposes(aten.fft_rfftfreq.default)
def rfftfreq(n: int, d: float = 1.0, *, dtype: torch.dtype | None = None, device: Any = None, **_: Any) -> Any:
    """The non-negative frequencies of a real transform."""
    return torch.arange(n // 2 + 1, **_options(dtype, device)) * (1.0 / (n * d))
