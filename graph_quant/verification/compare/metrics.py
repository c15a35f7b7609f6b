"""Metrics of the deviation of two results: equal bits, errors, and the signal-to-quantisation-noise ratio."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclass(frozen=True)
class FirstDifference:
    """The first element that differs, in row-major order, and both of its values."""

    index: tuple[int, ...]
    reference: float | int | str
    graph: float | int | str


@dataclass(frozen=True)
class Deviation:
    """The deviation of a graph's result from its reference. ``mismatch`` names a wrong dtype or shape.

    ``max_error`` is infinite where one value is NaN and the other is not, ``sqnr`` (in dB) where there is no error.
    ``magnitude`` is the largest absolute value of equal results that is finite.
    """

    equal: bool
    total: int
    differing: int = 0
    max_error: float = 0.0
    mean_error: float = 0.0
    sqnr: float = math.inf
    mismatch: str = ""
    first: FirstDifference | None = None
    magnitude: float = 0.0


def compare(reference: Tensor, graph: Tensor) -> Deviation:
    """The difference of two tensors on the CPU. Two NaN count as equal, +0 and -0 do not."""
    if {reference.dtype, graph.dtype} == {torch.int64, torch.uint64}:
        graph = graph.view(reference.dtype)  # GE has UINT64 where torch has int64; the bits are the same
    if reference.shape != graph.shape:
        return different(f"shape {_shape(graph)} instead of {_shape(reference)}", reference.numel())
    mismatch = ""
    if reference.dtype != graph.dtype:
        mismatch = f"{dtype_name(graph)} instead of {dtype_name(reference)}"
        same = _values(reference) == _values(graph)
    else:
        same = _same_bits(reference, graph)
    if not mismatch and bool(same.all()):
        return Deviation(True, reference.numel(), magnitude=_magnitude(reference))
    return _measure(reference, graph, same, mismatch)


def different(mismatch: str, total: int = 0) -> Deviation:
    """The difference of results that cannot be compared value by value."""
    return Deviation(False, total, total, math.inf, math.inf, -math.inf, mismatch)


def _measure(reference: Tensor, graph: Tensor, same: Tensor, mismatch: str) -> Deviation:
    total, differing = reference.numel(), int((~same).sum())
    if not differing:
        return Deviation(False, total, mismatch=mismatch)
    expected, got = _values(reference), _values(graph)
    error = (expected - got).abs()
    error = torch.where(same, torch.zeros_like(error), error.nan_to_num(nan=math.inf, posinf=math.inf))
    if not reference.is_floating_point() and not reference.is_complex():
        error = torch.where(same, error, error.clamp(min=1.0))  # float64 cannot distinguish large integers
    largest = float(error.max())
    scale = largest if 0 < largest < math.inf else 1.0  # squares of tiny errors would underflow
    noise = float((error / scale).square().sum())
    signal = float((expected.abs().nan_to_num(posinf=0.0) / scale).square().sum())
    position = int((~same).reshape(-1).nonzero()[0])
    index = tuple(int(part) for part in torch.unravel_index(torch.tensor(position), reference.shape))
    first = FirstDifference(index, _item(reference, position), _item(graph, position))
    return Deviation(False, total, differing, largest, float(error.mean()), _decibel(signal, noise), mismatch, first)


def _magnitude(values: Tensor) -> float:
    magnitudes = _values(values).abs().nan_to_num(nan=0.0, posinf=0.0)
    return float(magnitudes.max()) if magnitudes.numel() else 0.0


def _decibel(signal: float, noise: float) -> float:
    if noise == 0:
        return math.inf
    return 10 * math.log10(signal / noise) if signal > 0 and math.isfinite(noise) else -math.inf


def _same_bits(one: Tensor, other: Tensor) -> Tensor:
    if one.is_complex():
        return _same_bits(torch.view_as_real(one), torch.view_as_real(other)).all(-1)
    bits = _BITS[one.element_size()]
    same = one.contiguous().view(bits) == other.contiguous().view(bits)
    if one.is_floating_point() and not bool(same.all()):
        same |= _values(one).isnan() & _values(other).isnan()
    return same


def _values(tensor: Tensor) -> Tensor:
    """The values in float64, or in complex128 for complex tensors."""
    return tensor.to(torch.complex128) if tensor.is_complex() else tensor.to(torch.float64)


def _item(tensor: Tensor, position: int) -> float | int | str:
    value = tensor.reshape(-1)[position].item()
    return str(value) if isinstance(value, complex) else value


def _shape(tensor: Tensor) -> str:
    return "[" + ", ".join(map(str, tensor.shape)) + "]"


def dtype_name(tensor: Tensor) -> str:
    """The dtype without its module."""
    return str(tensor.dtype).removeprefix("torch.")
