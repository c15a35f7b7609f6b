"""npu_swiglu_group_quant: SwiGLU, a weight for each token, and HiFloat8 with a scale for each group; and its gradient.

With v the weighted SwiGLU in float32: static quantisation multiplies v by the scale of its group. Dynamic quantisation
has ``scale = absmax / dst_type_max`` with absmax at least 1e-8; groups are multiplied by ``dst_type_max / absmax``, and
v without groups by ``1 / scale``. Tokens beyond the last group become zeros. Magnitudes beyond the largest finite one
become infinite, as the kernel leaves the device's overflow mode alone.
"""

from __future__ import annotations

import torch
from graph_quant.chip import ASCEND_950
from graph_quant.ge import kernel
from graph_quant.narrow_floats import encode_hif8
from graph_quant.reference.activation.activation_functions import exp_float32, swish
from graph_quant.reference.grouping import COUNTS, spans
from graph_quant.reference.opaque import opaque
from torch import Tensor

STATIC, DYNAMIC = 2, 3
_OP = "npu_swiglu_group_quant"
_LEAST = 1e-8


def swiglu_group_quant(
    x: Tensor,
    weight: Tensor | None,
    group_index: Tensor | None,
    scale: Tensor | None,
    quant_mode: int,
    clamp_limit: float,
    dst_type_max: float,
    output_origin: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Quantise the SwiGLU of ``x`` as npu_swiglu_group_quant does.

    Args:
        x: Tensor of float32, float16 or bfloat16; the first half of the last dimension is activated.
        weight: A float32 number for each token, or None.
        group_index: The number of tokens of each group, or None.
        scale: What each group is multiplied by in mode 2.
        quant_mode: 2 for given scales, 3 for scales from the largest magnitudes.
        clamp_limit: The bound of both halves, or -1.
        dst_type_max: What the largest magnitude becomes in mode 3.
        output_origin: Whether to return v.

    Returns:
        ``(y, y_scale, y_origin)``: HiFloat8 in uint8; float32 scales in mode 3, else an empty tensor; and v in the
        dtype of ``x``, or an empty tensor.
    """
    values = _activate(x, weight, clamp_limit)
    origin = values.to(x.dtype).reshape(*x.shape[:-1], -1) if output_origin else x.new_empty((0,))
    if group_index is not None:
        y, y_scale = quantise_token_groups(values, group_index, scale, quant_mode, dst_type_max)
    elif quant_mode == STATIC:
        assert scale is not None
        y, y_scale = encode_hif8(values * scale, saturate=False), values.new_empty((0,))
    else:
        y_scale = _largest(values).reshape(1) / torch.full((1,), dst_type_max, device=x.device)
        y = encode_hif8(values * y_scale.reciprocal(), saturate=False)
    y_scale = y_scale if quant_mode == DYNAMIC else values.new_empty((0,))
    return y.reshape(*x.shape[:-1], values.size(-1)), y_scale, origin


def _activate(x: Tensor, weight: Tensor | None, clamp_limit: float) -> Tensor:
    """The weighted SwiGLU of the tokens in float32."""
    gate, linear = x.reshape(x.shape[:-1].numel(), x.size(-1)).float().chunk(2, -1)
    if clamp_limit > 0:
        gate, linear = gate.clamp(max=clamp_limit), linear.clamp(-clamp_limit, clamp_limit)
    values = swish(gate) * linear
    return values if weight is None else values * weight.reshape(-1, 1)


def _largest(values: Tensor) -> Tensor:
    return values.abs().amax().clamp(min=_LEAST)


def _infer(
    values: Tensor, groups: Tensor, _scale: Tensor | None, _mode: int, _dst_type_max: float
) -> tuple[Tensor, Tensor]:
    y = values.new_empty(values.shape, dtype=torch.uint8)
    return y, values.new_empty(groups.shape, dtype=torch.float32)


@opaque(_infer)
def quantise_token_groups(
    values: Tensor, groups: Tensor, scale: Tensor | None, mode: int, dst_type_max: float
) -> tuple[Tensor, Tensor]:
    """The HiFloat8 codes of groups of tokens, and the scale of each group in mode 3; 0 of one without tokens."""
    y, y_scale = (result.zero_() for result in _infer(values, groups, scale, mode, dst_type_max))
    for span in spans(_OP, groups, COUNTS, groups.size(0), values.size(0), "group_index"):
        part = values[span.as_slice]
        if mode == STATIC:
            assert scale is not None
            multiplier = scale[span.weight]
        else:
            largest = _largest(part)
            top = torch.full_like(largest, dst_type_max)
            y_scale[span.weight], multiplier = largest / top, top / largest
        y[span.as_slice] = encode_hif8(part * multiplier, saturate=False)
    return y, y_scale


@kernel("SwigluGroupQuant", flops=11, chips=(ASCEND_950,), idle=("block_size", "round_scale"))
def swiglu_group_quant_node(
    x: Tensor,
    weight: Tensor | None = None,
    group_index: Tensor | None = None,
    scale: Tensor | None = None,
    *,
    dst_type: int = 36,
    quant_mode: int = 0,
    clamp_limit: float = -1.0,
    dst_type_max: float = 15.0,
    output_origin: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    if quant_mode not in (STATIC, DYNAMIC):
        raise NotImplementedError(f"SwigluGroupQuant: quant_mode {quant_mode}, dst_type {dst_type} has no host kernel")
    return swiglu_group_quant(x, weight, group_index, scale, quant_mode, clamp_limit, dst_type_max, output_origin)


def swiglu_group_quant_backward(
    grad_y: Tensor,
    x: Tensor,
    weight: Tensor | None,
    y_origin: Tensor | None,
    group_index: Tensor | None,
    clamp_limit: float,
) -> tuple[Tensor, Tensor]:
    """The gradients of x and of the weights; zeros for tokens beyond the last group.

    Args:
        grad_y: The gradient of the SwiGLU.
        x: The input of the forward pass.
        weight: The weights of the forward pass, or None.
        y_origin: The SwiGLU without weights, which the gradient of the weights needs.
        group_index: The number of tokens of each group, or None.
        clamp_limit: The bound of the forward pass, or -1.

    Returns:
        ``(grad_x, grad_weight)``; without weights grad_weight is empty.
    """
    rows = x.shape[:-1].numel()
    upstream = grad_y.reshape(rows, grad_y.size(-1)).float()
    gate, linear = x.reshape(rows, x.size(-1)).float().chunk(2, -1)
    bounds = clamp_limit > 0
    limited, bounded = gate, linear
    if bounds:
        limited, bounded = gate.clamp(max=clamp_limit), linear.clamp(-clamp_limit, clamp_limit)
    weighted = upstream if weight is None else upstream * weight.reshape(-1, 1)
    raised = exp_float32(limited)
    sigmoid = raised / (raised + 1.0)
    of_gate = weighted * bounded * (sigmoid * ((1.0 - sigmoid) * limited + 1.0))
    of_linear = weighted * (limited * sigmoid)
    if bounds:
        of_gate = of_gate * (gate < clamp_limit)
        of_linear = of_linear * ((linear > -clamp_limit) & (linear < clamp_limit))
    of_x = torch.cat([of_gate, of_linear], -1).to(x.dtype)
    of_weight = x.new_empty((0,), dtype=torch.float32)
    if weight is not None:
        assert y_origin is not None
        of_weight = (y_origin.reshape(upstream.shape).float() * upstream).sum(-1)
    if group_index is not None:
        beyond = torch.arange(rows, device=x.device) >= group_index.sum()
        of_x = torch.where(beyond.unsqueeze(-1), torch.zeros_like(of_x), of_x)
        of_weight = of_weight if weight is None else torch.where(beyond, torch.zeros_like(of_weight), of_weight)
    return of_x.reshape(x.shape), of_weight if weight is None else of_weight.reshape(weight.shape)


@kernel("SwigluGroupQuantGrad", flops=16, chips=(ASCEND_950,))
def swiglu_group_quant_grad_node(
    grad_y: Tensor,
    x: Tensor,
    weight: Tensor | None = None,
    y_origin: Tensor | None = None,
    group_index: Tensor | None = None,
    *,
    clamp_limit: float = -1.0,
) -> tuple[Tensor, Tensor]:
    return swiglu_group_quant_backward(grad_y, x, weight, y_origin, group_index, clamp_limit)
