"""Builds quantised modules from stored weights."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from graph_quant import int4
from graph_quant.destination import INT4, INT8, INT32
from graph_quant.nn import schemes, weights
from graph_quant.nn.checkpoints.stored import Activations, CheckpointError, Stored
from graph_quant.nn.dynamic_w8a8 import DynamicW8A8Linear
from graph_quant.nn.experts.base import QuantisedExperts, fits_fused_swiglu, scale_dtype
from graph_quant.nn.experts.dynamic_w8a8 import DynamicW8A8Experts
from graph_quant.nn.experts.source import Activation
from graph_quant.nn.experts.w4a8 import W4A8Experts
from graph_quant.nn.experts.weight_only import W4A16Experts, W8A16Experts
from graph_quant.nn.static_w8a8 import StaticW8A8Linear
from graph_quant.nn.w4a4 import W4A4Linear
from graph_quant.nn.w4a8 import W4A8Linear
from graph_quant.nn.weight_only import W4A16Linear, W8A16Linear
from torch import Tensor, nn


def build_linear(name: str, stored: Stored, bias: Tensor | None, dtype: torch.dtype) -> nn.Module:
    """Return the module that computes with ``stored`` for inputs of ``dtype``."""
    if stored.activations is Activations.STATIC:
        return _static(stored, bias, dtype)
    one_group = stored.group_size is None
    wide = None if bias is None else bias.float()
    match stored.name:
        case "W8A8" if one_group:
            return DynamicW8A8Linear(stored.integers.contiguous(), stored.scale[:, 0].contiguous(), wide, None)
        case "W4A4" if one_group:
            return W4A4Linear(int4.pack(stored.integers), stored.scale[:, 0].contiguous(), wide)
        case "W4A8":
            return W4A8Linear(*_split(name, [stored]), None if bias is None else bias.to(dtype))
        case "W8A16" | "W4A16":
            kind = W8A16Linear if stored.bits == 8 else W4A16Linear
            narrow = None if bias is None else bias.to(torch.float16 if dtype == torch.float16 else torch.float32)
            return kind(*_weight_only(name, [stored], dtype, stacked=False), narrow, stored.group_size)
    grouping = "" if one_group else f" with a scale for each {stored.group_size} inputs"
    raise CheckpointError(f"{name}: there is no module for {stored.name}{grouping}")


def _static(stored: Stored, bias: Tensor | None, dtype: torch.dtype) -> StaticW8A8Linear:
    assert stored.input_scale is not None
    assert stored.input_offset is not None
    scale = stored.result_scale
    if scale is None:
        scale = stored.input_scale * stored.scale[:, 0]
    total = stored.integer_bias
    if total is None:
        share = stored.input_offset.double() * stored.integers.sum(1, dtype=torch.float64)
        added = 0.0 if bias is None else bias.double() / scale.double()
        total = (added - share).round().clamp(INT32.low, INT32.high).to(torch.int32)
    multiplier = stored.input_scale.reciprocal().to(dtype)
    offset = stored.input_offset.to(dtype)
    return StaticW8A8Linear(stored.integers.t().contiguous(), multiplier, offset, scale.contiguous(), total)


def build_experts(
    name: str, first: Sequence[Stored], second: Sequence[Stored], act_fn: Activation, dtype: torch.dtype
) -> QuantisedExperts:
    """Return experts built from their stored gate-up (2i, k) and down (k, i) weights, one of each for an expert."""
    kinds = {(stored.name, stored.activations, stored.group_size) for stored in first}
    kinds |= {(stored.name, stored.activations, stored.group_size) for stored in second}
    names = {kind[0] for kind in kinds}
    if len({kind[:2] for kind in kinds}) != 1 or any(kind[1] is Activations.STATIC for kind in kinds):
        schemes_found = ", ".join(sorted(f"{kind[0]} ({kind[1].value} quantised)" for kind in kinds))
        raise CheckpointError(
            f"{name}: experts must share one scheme without stored scales of activations, got {schemes_found}"
        )
    if names == {"W8A8"} and all(kind[2] is None for kind in kinds):
        result_dtype = scale_dtype(dtype)
        is_fused = fits_fused_swiglu(act_fn, first[0].integers.size(0), "dynamic")
        up, up_scale = _int8(first, torch.float32 if is_fused else result_dtype)
        down, down_scale = _int8(second, result_dtype)
        smooth: dict[str, Tensor | None] = {"gate_up_smooth": None, "down_smooth": None}
        return DynamicW8A8Experts(
            act_fn, gate_up=up, gate_up_scale=up_scale, down=down, down_scale=down_scale, **smooth
        )
    if names == {"W4A8"}:
        one, other = (_split(name, part) for part in (first, second))
        return W4A8Experts(
            act_fn,
            gate_up=one.elements,
            gate_up_scale=one.scale,
            gate_up_assist=one.assist,
            down=other.elements,
            down_scale=other.scale,
            down_assist=other.assist,
        )
    if names <= {"W4A16", "W8A16"}:
        kind = W4A16Experts if names == {"W4A16"} else W8A16Experts
        left, right = (_weight_only(name, part, dtype) for part in (first, second))
        return kind(
            act_fn, gate_up=left.elements, gate_up_scale=left.scale, down=right.elements, down_scale=right.scale
        )
    raise CheckpointError(f"{name}: there is no module for experts in {', '.join(sorted(names))}")


def concat_outputs(upper: Stored, lower: Stored) -> Stored:
    """Concatenate two weights of the same inputs along the outputs, ``upper`` first."""
    both = upper, lower
    assist = [stored.assist for stored in both if stored.assist is not None]
    return Stored(
        upper.bits,
        torch.cat([stored.integers for stored in both]),
        torch.cat([stored.scale for stored in both]),
        upper.activations,
        upper.activation_bits,
        assist=torch.cat(assist) if len(assist) == 2 else None,
    )


def _int8(parts: Sequence[Stored], dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    integers = torch.stack([stored.integers for stored in parts])
    return weights.columns(integers, INT8), torch.stack([stored.scale[:, 0] for stored in parts]).to(dtype)


def _split(name: str, parts: Sequence[Stored]) -> schemes.Split:
    schemes.check_split(name, parts[0].integers)
    integers = torch.stack([stored.integers for stored in parts])
    scale = torch.stack([stored.scale for stored in parts])
    split = schemes.split_integers(integers, scale)
    assists = [stored.assist for stored in parts if stored.assist is not None]
    return split if len(assists) < len(parts) else split._replace(assist=torch.stack(assists))


def _weight_only(name: str, parts: Sequence[Stored], dtype: torch.dtype, *, stacked: bool = True) -> schemes.WeightOnly:
    destination = INT8 if parts[0].bits == 8 else INT4
    schemes.check_packable(name, parts[0].integers, destination)
    elements = weights.columns(torch.stack([stored.integers for stored in parts]), destination)
    scale = torch.stack([stored.scale for stored in parts]).mT.to(dtype).contiguous()
    if parts[0].group_size is None:
        scale = scale.squeeze(1)
    return schemes.WeightOnly(elements, scale) if stacked else schemes.WeightOnly(elements[0], scale[0])
