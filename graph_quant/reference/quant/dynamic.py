"""What the symmetric and the asymmetric dynamic quantisation share: the reduction to extremes, and smoothing.

The mode is which elements share one scale: a row (``pertoken``), the tensor (``pertensor``), or a column of the last
two dimensions (``perchannel``). A method computes parameters from the extremes of those elements and applies them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from graph_quant import chip
from graph_quant.destination import HIFLOAT8, Destination
from graph_quant.reference.blocks import Results, by_row_blocks, checked_ends, group_of_row
from graph_quant.reference.rounding import store

PERTOKEN, PERTENSOR, PERCHANNEL = "pertoken", "pertensor", "perchannel"
MODES = (PERTOKEN, PERTENSOR, PERCHANNEL)
# A smaller dst_type_max counts as 0: the epsilon of float32.
_SMALLEST_MAX = 2.0**-23


@dataclass(frozen=True)
class Method:
    """``parameters(largest, smallest, top, destination)`` returns the parameters of ``apply(values, *parameters)``."""

    op: str
    parameters: Callable[[torch.Tensor, torch.Tensor, float, Destination], Results]
    apply: Callable[..., torch.Tensor]


def parameter_shape(shape: Sequence[int], mode: str) -> tuple[int, ...]:
    """The shape of scale and offset for an input of ``shape``."""
    if mode == PERTENSOR:
        return (1,)
    return tuple(shape[:-1]) if mode == PERTOKEN else (*shape[:-2], shape[-1])


def shared_elements(x: torch.Tensor, mode: str) -> int:
    """The number of elements that share one scale."""
    if mode == PERTENSOR:
        return x.numel()
    return x.size(-1 if mode == PERTOKEN else -2)


def broadcast(parameter: torch.Tensor, mode: str) -> torch.Tensor:
    """A scale or offset shaped to broadcast against the elements it belongs to."""
    if mode == PERTENSOR:
        return parameter
    return parameter.unsqueeze(-1 if mode == PERTOKEN else -2)


def quantise(
    method: Method,
    x: torch.Tensor,
    smooth_scales: torch.Tensor | None,
    group_index: torch.Tensor | None,
    destination: Destination,
    mode: str,
    dst_type_max: float,
) -> Results:
    """The quantised ``x`` and its parameters. ``dst_type_max`` replaces the destination's largest value.

    On Ascend 950 it does so for HiFloat8 alone, and has no effect for others.
    """
    top = dst_type_max or float(destination.high)
    if chip.is_950() and (destination is not HIFLOAT8 or abs(dst_type_max) < _SMALLEST_MAX):
        top = float(destination.high)
    if mode != PERTOKEN:
        reduced: tuple[int, ...] = (-2,) if mode == PERCHANNEL else tuple(range(x.dim()))
        smooth = smooth_scales
        if smooth is not None and mode == PERCHANNEL:
            smooth = smooth.unsqueeze(-1)
        y, *parameters = _quantise_over(method, x, smooth, reduced, top, destination)
    else:
        y, *parameters = _quantise_tokens(method, x, smooth_scales, group_index, top, destination)
    shape = parameter_shape(x.shape, mode)
    return (y.reshape(destination.stored_shape(x.shape)), *(parameter.reshape(shape) for parameter in parameters))


def _quantise_tokens(
    method: Method,
    x: torch.Tensor,
    smooth_scales: torch.Tensor | None,
    group_index: torch.Tensor | None,
    top: float,
    destination: Destination,
) -> Results:
    tokens = x.reshape(math.prod(x.shape[:-1]), x.size(-1))
    groups = None
    if group_index is not None and x.numel():
        groups = group_of_row(checked_ends(method.op, group_index, tokens.size(0)), tokens.size(0))

    def block(rows: slice) -> Results:
        smooth = smooth_scales
        if smooth is not None and groups is not None:
            smooth = smooth[groups[rows]]
        return _quantise_over(method, tokens[rows], smooth, (-1,), top, destination)

    if torch.compiler.is_compiling() or x.numel() == 0:
        return block(slice(None))
    return by_row_blocks(block, tokens.size(0), tokens.size(1))


def _quantise_over(
    method: Method,
    x: torch.Tensor,
    smooth: torch.Tensor | None,
    reduced: tuple[int, ...],
    top: float,
    destination: Destination,
) -> Results:
    """Quantise ``x`` with parameters that the elements along the ``reduced`` dimensions share."""
    values = x.float()
    if x.numel() == 0:
        kept = [1 if dim - x.dim() in reduced or dim in reduced else size for dim, size in enumerate(x.shape)]
        largest = smallest = values.new_zeros(kept)
    else:
        values = values if smooth is None else values * smooth.float()
        largest, smallest = values.amax(reduced, keepdim=True), values.amin(reduced, keepdim=True)
    parameters = method.parameters(largest, smallest, top, destination)
    return (store(method.apply(values, *parameters), destination), *parameters)
