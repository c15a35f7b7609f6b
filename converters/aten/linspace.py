"""Numbers in a row: evenly spaced ones, windows over signals and frequencies."""

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
# Integers up to this are numbers of every type but bfloat16, and so are their sums.
_EXACT = 2**10


@converts(aten.linspace.default)
def linspace(start: Any, end: Any, steps: Any, *, meta_outputs: Any = None, **_: Any) -> Tensor:
    """LinSpace of floats: TorchAir leaves integers what they are, and so are all numbers between them."""
    inner = DataType.DT_FLOAT if meta_outputs.dtype in _FLOATS else DataType.DT_DOUBLE
    found = ge.LinSpace(*in_type(inner, start, end), in_type(DataType.DT_INT32, steps))
    return in_type(meta_outputs.dtype, found)  # type: ignore[no-any-return]


@converts(aten.arange.start_step)
def arange(start: Any, end: Any, step: Any = 1, *, meta_outputs: Any = None, **_: Any) -> Tensor:
    """Range; fractions are added in float64, as ATen adds them: rounded before, they would end elsewhere."""
    wanted = meta_outputs.dtype
    exact = all(isinstance(each, int) and abs(each) <= _EXACT for each in (start, end, step))
    inner = DataType.DT_DOUBLE if wanted in _FLOATS and not exact else wanted
    return in_type(wanted, ge.Range(*in_type(inner, start, end, step)))  # type: ignore[no-any-return]


def _options(dtype: torch.dtype | None, device: Any) -> dict[str, Any]:
    return {"dtype": torch.get_default_dtype() if dtype is None else dtype, "device": device}


def _window(*overloads: Any) -> Callable[..., Any]:
    """A window by its angles, a period longer than it where it is to be repeated."""

    def register(shape: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        @decomposes(*overloads)
        def window(
            length: int,
            periodic: bool = True,
            *given: float,
            dtype: torch.dtype | None = None,
            device: Any = None,
            **_: Any,
        ) -> Any:
            options = _options(dtype, device)
            if length == 1:
                return torch.ones(1, **options)
            period = length + 1 if periodic else length
            return shape(torch.arange(period, **options), period - 1, *given).narrow(0, 0, length).clone()

        return shape

    return register


@_window(aten.bartlett_window.default, aten.bartlett_window.periodic)
def _bartlett(places: torch.Tensor, last: int) -> torch.Tensor:
    risen = places * (2.0 / last)
    return torch.where(places < last // 2 + 1, risen, risen * -1 + 2)


@_window(aten.blackman_window.default, aten.blackman_window.periodic)
def _blackman(places: torch.Tensor, last: int) -> torch.Tensor:
    turned = places * (math.pi / last)
    return (turned * 4).cos() * 0.08 - (turned * 2).cos() * 0.5 + 0.42


@_window(
    aten.hamming_window.default,
    aten.hamming_window.periodic,
    aten.hamming_window.periodic_alpha,
    aten.hamming_window.periodic_alpha_beta,
)
def _hamming(places: torch.Tensor, last: int, alpha: float = 0.54, beta: float = 0.46) -> torch.Tensor:
    return (places * (2.0 * math.pi / last)).cos() * -beta + alpha


@_window(aten.hann_window.default, aten.hann_window.periodic)
def _hann(places: torch.Tensor, last: int) -> torch.Tensor:
    return _hamming(places, last, 0.5, 0.5)


@decomposes(aten.fft_fftfreq.default)
def fftfreq(n: int, d: float = 1.0, *, dtype: torch.dtype | None = None, device: Any = None, **_: Any) -> Any:
    """The frequencies of a transform: those above the half are below zero."""
    places = torch.arange(n, **_options(dtype, device))
    return torch.where(places < (n + 1) // 2, places, places - n) * (1.0 / (n * d))


@decomposes(aten.fft_rfftfreq.default)
def rfftfreq(n: int, d: float = 1.0, *, dtype: torch.dtype | None = None, device: Any = None, **_: Any) -> Any:
    """The frequencies of the half of a transform."""
    return torch.arange(n // 2 + 1, **_options(dtype, device)) * (1.0 / (n * d))
