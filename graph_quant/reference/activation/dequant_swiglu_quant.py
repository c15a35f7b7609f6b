"""npu_dequant_swiglu_quant: dequantises an int32 product, applies SwiGLU and quantises to int8.

``v = x * weight_scale * activation_scale``; an int32 bias is added before the scales, a floating-point one after. For
half-precision x, v is x. With s the SwiGLU of v, as in ``activation_functions``, and M = 127:

* dynamic: ``s * quant_scale``; rows in groups take ``scale = absmax * (1/M)`` and ``y = rint(s / scale)``, rows without
  groups ``scale = absmax / M`` and ``y = rint(s * (1 / scale))``: two kernels that round differently;
* static: ``rint(s / quant_scale + quant_offset)``, one quant_scale for all columns as ``s * (1 / quant_scale)``. The
  device does not write the scale; here it is zero.

The device leaves rows outside all groups uninitialised; here they are zero.

On Ascend 950 half-precision x in groups, float8 and HiFloat8 too have ``scale = absmax / M`` and ``y = sat(round(s /
scale))``, and static quantisation divides by quant_scale always.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from graph_quant import chip
from graph_quant.chip import A2_A3_950
from graph_quant.destination import INT8, Destination, element_destination
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
    destination: Destination,
    dst_type: object,  # noqa: ARG001
    round_mode: object,  # noqa: ARG001
    activate_dim: object,  # noqa: ARG001
    **arguments: Any,
) -> Pair:
    """The quantised rows and their scales; the rules allow one value of round_mode and activate_dim."""
    fused = torch.compiler.is_compiling() and destination is INT8
    return swiglu_of_rows(**arguments, fused=fused, dst_type=destination.ge_attr)


def _infer(x: Tensor, *arguments: Any) -> Pair:
    storage = element_destination(arguments[-1]).storage if arguments else torch.int8
    return x.new_empty((*x.shape[:-1], x.size(-1) // 2), dtype=storage), x.new_empty(x.shape[:-1], dtype=torch.float32)


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
    dst_type: int,
) -> tuple[Tensor, Tensor]:
    """The results for rows in groups, or for one group of all rows; opaque because the groups depend on data.

    Compiled code fuses the operations on a block of rows, small enough for its intermediate results to stay in cache.
    """
    y, scale = _infer(x, dst_type)
    x_rows, y_rows = (tensor.reshape(scale.numel(), tensor.size(-1)) for tensor in (x, y))
    scale_rows = scale.view(-1)
    if group_index is None:
        groups = [Span(0, 0, scale.numel())]
    else:
        kind = SPARSE if group_index.dim() == 2 else COUNTS
        groups = spans(_OP, group_index, kind, group_index.size(0), x.size(0), "group_index")
        y.view(torch.uint8).zero_()
        scale.zero_()
    destination = element_destination(dst_type)
    quantisation = quant_scale, quant_offset, quant_mode, group_index is not None
    parameters = _Parameters.of(x, weight_scale, activation_scale, bias, *quantisation, destination)
    gate = activate_left, swiglu_mode, clamp_limit, glu_alpha, glu_bias
    for group in groups:
        # Fused code has fewer intermediates, and every call has an overhead.
        for rows in row_blocks(group.start, group.end, x.size(-1) // (8 if fused else 1)):
            compute = _compiled() if fused and rows.stop - rows.start > 1 else _compute_rows
            y_rows[rows], scale_rows[rows] = compute(x_rows[rows], parameters.of_group(rows, group.weight), *gate)
    return y, scale


def _compute_rows(x: Tensor, parameters: _Parameters, activate_left: bool, *gate: Any) -> Pair:
    """Rows of one group."""
    return parameters.quantise(apply_swiglu(parameters.dequantise(x, slice(None), 0), activate_left, *gate), 0)


@functools.cache
def _compiled() -> Callable[..., Pair]:
    # Without this option, fused half-precision operators keep float32 intermediates.
    return torch.compile(_compute_rows, dynamic=True, options={"emulate_precision_casts": True})


@dataclass(frozen=True)
class _Parameters:
    """The parameters as (groups, columns), those of tokens as (rows, 1)."""

    channels: Tensor | None
    tokens: Tensor | None
    added: Tensor | None
    smooth: Tensor | None
    shift: Tensor | None
    dynamic: bool
    in_groups: bool
    destination: Destination

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
        destination: Destination,
    ) -> _Parameters:
        width, is_integer = x.size(-1), x.dtype == torch.int32
        columns = 1 if _is_per_tensor(quant_scale, in_groups, quant_mode) else width // 2
        smooth, shift = _as_rows(quant_scale, columns), _as_rows(quant_offset, columns)
        dequantisation = (_as_rows(weight_scale, width), _as_rows(activation_scale, 1), _as_rows(bias, width))
        used = dequantisation if is_integer else (None, None, None)
        return cls(*used, smooth, shift, quant_mode == 1, in_groups, destination)

    def of_group(self, rows: slice, group: int) -> _Parameters:
        """The parameters of some rows of a group."""
        index = slice(group, group + 1)
        channels, added, smooth, shift = (
            None if parameter is None else parameter[index]
            for parameter in (self.channels, self.added, self.smooth, self.shift)
        )
        tokens = None if self.tokens is None else self.tokens[rows]
        return _Parameters(channels, tokens, added, smooth, shift, self.dynamic, self.in_groups, self.destination)

    def dequantise(self, x: Tensor, rows: slice, group: int) -> Tensor:
        """Rows of x in float32."""
        values, bias = x[rows], None if self.added is None else self.added[group]
        if bias is not None and bias.dtype == torch.int32:
            values, bias = values + bias, None
        numbers = values.float()
        numbers = numbers if self.channels is None else numbers.mul_(self.channels[group])
        numbers = numbers if self.tokens is None else numbers.mul_(self.tokens[rows])
        return numbers if bias is None else numbers.add_(bias.float())

    def quantise(self, values: Tensor, group: int) -> Pair:
        """Gated rows quantised, and their scales."""
        smooth = None if self.smooth is None else self.smooth[group].float()
        if chip.is_950():
            return self._quantise_950(values, smooth, group)
        if self.dynamic:
            return quantise_rows(values if smooth is None else values.mul_(smooth), self.in_groups)
        if smooth is not None and self.shift is not None:
            if smooth.size(-1) == 1:
                inverse = 1.0 / smooth
                values = values * (torch.where(smooth == 0, 1.0, inverse) if self.in_groups else inverse)
            else:
                values = values / smooth
            values = values + self.shift[group].float()
        return saturate(values, INT8), values.new_zeros(values.shape[:-1])

    def _quantise_950(self, values: Tensor, smooth: Tensor | None, group: int) -> Pair:
        if self.dynamic:
            values = values if smooth is None else values * smooth
            largest = values.abs().amax(-1, keepdim=True)
            scale = largest / torch.full_like(largest, float(self.destination.high))
            return saturate(values / scale, self.destination), scale.squeeze(-1)
        assert smooth is not None
        values = values / smooth
        values = values if self.shift is None else values + self.shift[group].float()
        return saturate(values, self.destination), values.new_zeros(values.shape[:-1])


def _is_per_tensor(parameter: Tensor | None, in_groups: bool, quant_mode: int) -> bool:
    """Whether one element is for all columns."""
    if parameter is None or not in_groups:
        return parameter is not None and parameter.numel() == 1
    return quant_mode == 0 and (parameter.dim() == 1 or parameter.size(-1) == 1)


def _as_rows(parameter: Tensor | None, columns: int) -> Tensor | None:
    return None if parameter is None else parameter.reshape(parameter.numel() // columns, columns)


def quantise_rows(values: Tensor, divides: bool) -> Pair:
    """Rows as int8 and their scales; ``divides`` by the scale, or multiplies by its reciprocal."""
    largest = values.abs().amax(-1, keepdim=True)
    scale = largest * _INVERSE if divides else largest / _LARGEST
    scaled = values.div_(scale) if divides else values.mul_(1.0 / scale)
    return saturate(scaled, INT8), scale.squeeze(-1)


@kernel("DequantSwigluQuant", flops=10, chips=A2_A3_950)
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
    dst_type: int = INT8.ge_attr,
    round_mode: str = "rint",
    activate_dim: int = -1,
    swiglu_mode: int = 0,
    clamp_limit: float = 7.0,
    glu_alpha: float = 1.702,
    glu_bias: float = 1.0,
) -> tuple[Tensor, Tensor]:
    if activate_dim not in (-1, x.dim() - 1) or round_mode not in ("rint", "round"):
        raise NotImplementedError(
            f"DequantSwigluQuant: activate_dim {activate_dim} with {round_mode} has no host kernel"
        )
    tensors = x, weight_scale, activation_scale, bias, quant_scale, quant_offset, group_index
    mode = int(quant_mode == "dynamic")
    gate = activate_left, mode, swiglu_mode, clamp_limit, glu_alpha, glu_bias
    fused = torch.compiler.is_compiling() and dst_type == INT8.ge_attr
    return swiglu_of_rows(*tensors, *gate, fused, dst_type)
