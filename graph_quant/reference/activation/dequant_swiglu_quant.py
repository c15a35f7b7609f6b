"""npu_dequant_swiglu_quant: an int32 product becomes numbers, is gated, and is quantised again.

``v = x * weight_scale * activation_scale``, an int32 bias added before and a floating one after; half-precision x is v
itself. With s the gate of v, as ``gates`` has it, and M = 127:

* dynamic: ``s * quant_scale``; rows in groups take ``scale = absmax * (1/M)`` and ``y = rint(s / scale)``, rows without
  groups ``scale = absmax / M`` and ``y = rint(s * (1 / scale))``: two kernels that round differently;
* static: ``rint(s / quant_scale + quant_offset)``, one quant_scale for all columns as ``s * (1 / quant_scale)``. The
  device does not write the scale; here it is zero.

Rows that belong to no group the device leaves as it found the memory; here they are zero.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from graph_quant.destination import INT8
from graph_quant.ge import kernel
from graph_quant.reference.activation.activation_functions import apply_swiglu
from graph_quant.reference.blocks import row_blocks
from graph_quant.reference.grouping import COUNTS, SPARSE, Span, spans
from graph_quant.reference.opaque import opaque
from graph_quant.reference.rounding import saturate
from torch import Tensor

_OP = "npu_dequant_swiglu_quant"
_LARGEST, _INVERSE = 127.0, float(torch.tensor(1.0 / 127.0))
Pair = tuple[Tensor, Tensor]


def dequant_swiglu_quant(
    x: Tensor,
    weight_scale: Tensor | None,
    activation_scale: Tensor | None,
    bias: Tensor | None,
    quant_scale: Tensor | None,
    quant_offset: Tensor | None,
    group_index: Tensor | None,
    activate_left: bool,
    quant_mode: int,
    swiglu_mode: int,
    clamp_limit: float,
    glu_alpha: float,
    glu_bias: float,
) -> Pair:
    """The quantised rows and, for dynamic quantisation, their scales."""
    gate = activate_left, quant_mode, swiglu_mode, clamp_limit, glu_alpha, glu_bias
    tensors = x, weight_scale, activation_scale, bias, quant_scale, quant_offset
    return swiglu_of_rows(*tensors, group_index, *gate, torch.compiler.is_compiling())


def _infer(x: Tensor, *_: object) -> Pair:
    return x.new_empty((*x.shape[:-1], x.size(-1) // 2), dtype=torch.int8), x.new_empty(
        x.shape[:-1], dtype=torch.float32
    )


@opaque(_infer)
def swiglu_of_rows(
    x: Tensor,
    weight_scale: Tensor | None,
    activation_scale: Tensor | None,
    bias: Tensor | None,
    quant_scale: Tensor | None,
    quant_offset: Tensor | None,
    group_index: Tensor | None,
    activate_left: bool,
    quant_mode: int,
    swiglu_mode: int,
    clamp_limit: float,
    glu_alpha: float,
    glu_bias: float,
    fused: bool,
) -> tuple[Tensor, Tensor]:
    """Rows in groups, or one group of all rows. A step of its own, whose course depends on where the groups lie.

    Compiled code fuses what is done to some rows, so few that what lies between its two passes stays in the cache.
    """
    y, scale = _infer(x)
    given, all_y = (each.reshape(scale.numel(), each.size(-1)) for each in (x, y))
    all_scales = scale.view(-1)
    if group_index is None:
        groups = [Span(0, 0, scale.numel())]
    else:
        kind = SPARSE if group_index.dim() == 2 else COUNTS
        groups = spans(_OP, group_index, kind, group_index.size(0), x.size(0), "group_index")
        y.zero_()
        scale.zero_()
    quantising = quant_scale, quant_offset, quant_mode, group_index is not None
    parameters = _Parameters.of(x, weight_scale, activation_scale, bias, *quantising)
    gate = activate_left, swiglu_mode, clamp_limit, glu_alpha, glu_bias
    for group in groups:
        # Fused, little lies between, and each call costs some time of its own.
        for rows in row_blocks(group.start, group.end, x.size(-1) // (8 if fused else 1)):
            compute = _fused() if fused and rows.stop - rows.start > 1 else _group
            all_y[rows], all_scales[rows] = compute(given[rows], parameters.of_group(rows, group.weight), *gate)
    return y, scale


def _group(x: Tensor, parameters: _Parameters, activate_left: bool, *gate: Any) -> Pair:
    """Rows of one group."""
    return parameters.quantised(apply_swiglu(parameters.restored(x, slice(None), 0), activate_left, *gate), 0)


@functools.cache
def _fused() -> Callable[..., Pair]:
    # Half-precision operators that were fused would keep float32 between them.
    return torch.compile(_group, dynamic=True, options={"emulate_precision_casts": True})


@dataclass(frozen=True)
class _Parameters:
    """Each as (groups, columns), or (rows, 1) for the tokens."""

    channels: Tensor | None
    tokens: Tensor | None
    added: Tensor | None
    smooth: Tensor | None
    shift: Tensor | None
    dynamic: bool
    in_groups: bool

    @classmethod
    def of(
        cls,
        x: Tensor,
        weight_scale: Tensor | None,
        activation_scale: Tensor | None,
        bias: Tensor | None,
        quant_scale: Tensor | None,
        quant_offset: Tensor | None,
        quant_mode: int,
        in_groups: bool,
    ) -> _Parameters:
        width, is_integer = x.size(-1), x.dtype == torch.int32
        columns = 1 if _is_one(quant_scale, in_groups, quant_mode) else width // 2
        smooth, shift = _by_row(quant_scale, columns), _by_row(quant_offset, columns)
        restoring = (_by_row(weight_scale, width), _by_row(activation_scale, 1), _by_row(bias, width))
        return cls(*(restoring if is_integer else (None, None, None)), smooth, shift, quant_mode == 1, in_groups)

    def of_group(self, rows: slice, group: int) -> _Parameters:
        """Those of some rows of a group."""
        place = slice(group, group + 1)
        channels, added, smooth, shift = (
            None if each is None else each[place] for each in (self.channels, self.added, self.smooth, self.shift)
        )
        tokens = None if self.tokens is None else self.tokens[rows]
        return _Parameters(channels, tokens, added, smooth, shift, self.dynamic, self.in_groups)

    def restored(self, x: Tensor, rows: slice, group: int) -> Tensor:
        """The numbers that rows of x stand for."""
        values, bias = x[rows], None if self.added is None else self.added[group]
        if bias is not None and bias.dtype == torch.int32:
            values, bias = values + bias, None
        numbers = values.float()
        numbers = numbers if self.channels is None else numbers.mul_(self.channels[group])
        numbers = numbers if self.tokens is None else numbers.mul_(self.tokens[rows])
        return numbers if bias is None else numbers.add_(bias.float())

    def quantised(self, values: Tensor, group: int) -> Pair:
        """Gated rows as int8, and their scales."""
        smooth = None if self.smooth is None else self.smooth[group].float()
        if self.dynamic:
            return dynamic_rows(values if smooth is None else values.mul_(smooth), self.in_groups)
        if smooth is not None and self.shift is not None:
            if smooth.size(-1) == 1:
                inverse = 1.0 / smooth
                values = values * (torch.where(smooth == 0, 1.0, inverse) if self.in_groups else inverse)
            else:
                values = values / smooth
            values = values + self.shift[group].float()
        return saturate(values, INT8), values.new_zeros(values.shape[:-1])


def _is_one(parameter: Tensor | None, in_groups: bool, quant_mode: int) -> bool:
    """Whether one number serves all columns."""
    if parameter is None or not in_groups:
        return parameter is not None and parameter.numel() == 1
    return quant_mode == 0 and parameter.dim() == 1


def _by_row(parameter: Tensor | None, columns: int) -> Tensor | None:
    return None if parameter is None else parameter.reshape(parameter.numel() // columns, columns)


def dynamic_rows(values: Tensor, divides: bool) -> Pair:
    """Rows as int8 and their scales; ``divides`` by the scale, or multiplies with its inverse."""
    largest = values.abs().amax(-1, keepdim=True)
    scale = largest * _INVERSE if divides else largest / _LARGEST
    scaled = values.div_(scale) if divides else values.mul_(1.0 / scale)
    return saturate(scaled, INT8), scale.squeeze(-1)


@kernel("DequantSwigluQuant", flops=10)
def dequant_swiglu_quant_node(
    x: Tensor,
    weight_scale: Tensor | None = None,
    activation_scale: Tensor | None = None,
    bias: Tensor | None = None,
    quant_scale: Tensor | None = None,
    quant_offset: Tensor | None = None,
    group_index: Tensor | None = None,
    *,
    activate_left: bool = False,
    quant_mode: str = "static",
    swiglu_mode: int = 0,
    clamp_limit: float = 7.0,
    glu_alpha: float = 1.702,
    glu_bias: float = 1.0,
) -> tuple[Tensor, Tensor]:
    tensors = x, weight_scale, activation_scale, bias, quant_scale, quant_offset, group_index
    mode = int(quant_mode == "dynamic")
    return dequant_swiglu_quant(*tensors, activate_left, mode, swiglu_mode, clamp_limit, glu_alpha, glu_bias)
