"""Float experts in torch, and quantised experts row by row in NumPy, from the float weights."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from support.arrays import Array, exp, numbers, rounded, to_int8

F32 = np.float32


class Experts(nn.Module):
    """Gated experts in two tensors."""

    def __init__(
        self, dtype: torch.dtype, experts: int = 4, hidden: int = 64, inside: int = 64, act_fn=nn.functional.silu
    ) -> None:
        super().__init__()
        self.gate_up_proj = nn.Parameter((torch.randn(experts, 2 * inside, hidden) / hidden**0.5).to(dtype))
        self.down_proj = nn.Parameter((torch.randn(experts, hidden, inside) / inside**0.5).to(dtype))
        self.act_fn = act_fn

    def forward(self, hidden: Tensor, top_k_index: Tensor, top_k_weights: Tensor) -> Tensor:
        result = torch.zeros_like(hidden)
        for token, (chosen, shares) in enumerate(zip(top_k_index.tolist(), top_k_weights, strict=True)):
            for expert, share in zip(chosen, shares, strict=True):
                gate, up = (self.gate_up_proj[expert] @ hidden[token]).chunk(2)
                result[token] += share.to(hidden.dtype) * (self.down_proj[expert] @ (self.act_fn(gate) * up))
        return result


class MLP(nn.Module):
    """One gated expert."""

    def __init__(self, gate: Tensor, up: Tensor, down: Tensor, names: tuple[str, ...]) -> None:
        super().__init__()
        for name, weight in zip(names, (gate, up, down), strict=True):
            linear = nn.Linear(weight.size(1), weight.size(0), bias=False)
            linear.weight = nn.Parameter(weight)
            self.add_module(name, linear)
        self.names, self.act_fn = names, nn.SiLU()

    def forward(self, x: Tensor) -> Tensor:
        gate, up, down = (self.get_submodule(name) for name in self.names)
        return down(self.act_fn(gate(x)) * up(x))


class ListedExperts(nn.ModuleList):
    """The same experts as a list, called as a whole."""

    def forward(self, hidden: Tensor, top_k_index: Tensor, top_k_weights: Tensor) -> Tensor:
        result = torch.zeros_like(hidden)
        for token, (chosen, shares) in enumerate(zip(top_k_index.tolist(), top_k_weights, strict=True)):
            for expert, share in zip(chosen, shares, strict=True):
                result[token] += share.to(hidden.dtype) * self[expert](hidden[token])
        return result


def listed(experts: Experts, names: tuple[str, ...] = ("gate_proj", "up_proj", "down_proj")) -> ListedExperts:
    """The weights of ``experts`` in a list."""
    matrices = zip(experts.gate_up_proj.data, experts.down_proj.data, strict=True)
    return ListedExperts([MLP(*gate_up.clone().chunk(2), down.clone(), names) for gate_up, down in matrices])


def tokens_for(experts: Experts, tokens: int, among: int | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Hidden states, two experts ``among`` the first for each, and their shares."""
    count, _, hidden = experts.gate_up_proj.shape
    x = torch.randn(tokens, hidden) + 0.3
    x[:, 5] *= 8
    chosen = torch.rand(tokens, among or count).topk(2).indices
    return x.to(experts.gate_up_proj.dtype), chosen, torch.rand(tokens, 2).softmax(-1)


def integer_columns(weight: Array, top: int, dtype: torch.dtype | None = None) -> tuple[Array, Array]:
    """Rows of ``weight`` (n, k) as integers, and their scales rounded to ``dtype``."""
    scale = np.abs(weight).max(-1) / F32(top)
    scale = scale if dtype is None else rounded(scale, dtype)
    return np.clip(np.rint(weight / scale[:, None]), -top, top).astype(np.int64), scale


def swiglu(values: Array) -> Array:
    """``left / (1 + exp(-left)) * right`` in float32."""
    left, right = np.split(values, 2)
    return left / (F32(1) + exp(-left)) * right


def product(integers: Array, weight: Array) -> Array:
    """The sum in int32, as float32."""
    return (weight @ integers.astype(np.int64)).astype(F32)


def dynamic_row(x: Array, gate_up: Array, down: Array, dtype: torch.dtype) -> Array:
    """int8 weights and rows, without smoothing, by npu_dequant_swiglu_quant."""
    step = np.abs(x).max() / F32(127)
    first, first_scale = integer_columns(gate_up, 127)
    inside = swiglu(product(to_int8(x / step), first) * first_scale * step)
    inside_step = np.abs(inside).max() * F32(1 / 127)
    second, second_scale = integer_columns(down, 127, torch.bfloat16 if dtype == torch.bfloat16 else None)
    return rounded(product(to_int8(inside / inside_step), second) * second_scale * inside_step, dtype)


def split_product(integers: Array, step: Array, weight: Array, dtype: torch.dtype, length: int) -> Array:
    """int8 times int4, the row as 16 * high + low + 8, with sums of each group in float16."""
    groups = np.split(weight, weight.shape[1] // length, 1)
    cut = [integer_columns(part, 7) for part in groups]
    if len(groups) == 1:
        cut = [integer_columns(weight, 7, torch.bfloat16)]
    else:
        scales = [(scale.view(np.uint32) & np.uint32(0xFFFFE000)).view(F32) for _, scale in cut]
        parts = zip(groups, scales, strict=True)
        cut = [(np.clip(np.rint(part / scale[:, None]), -7, 7).astype(np.int64), scale) for part, scale in parts]
    shift = 8 * sum((part * scale[:, None].astype(np.float64)).sum(1) for part, scale in cut)
    halves = []
    for half in (integers.astype(np.int64) >> 4, (integers.astype(np.int64) & 15) - 8):
        total = np.float16(0)
        for (part, scale), row in zip(cut, np.split(half, len(cut)), strict=True):
            total = total + (product(row, part) * scale).astype(np.float16)
        halves.append(total.astype(F32))
    return rounded((halves[1] + halves[0] * F32(16) + shift.astype(F32)) * step, dtype)


def w4a8_row(x: Array, gate_up: Array, down: Array, dtype: torch.dtype) -> Array:
    """int4 weights with a scale for each 64 inputs, int8 rows."""
    step = np.abs(x).max() / F32(127)
    inside = rounded(swiglu(split_product(to_int8(x / step), step, gate_up, dtype, 64)), dtype)
    largest = np.abs(inside).max()
    return split_product(to_int8(inside * (F32(127) / largest)), largest * F32(1 / 127), down, dtype, 64)


def static_row(low: float, high: float, inside: float) -> Callable[..., Array]:
    """int8 weights and rows for tokens from ``low`` to ``high``, and gated rows up to ``inside``."""
    step = (F32(high) - F32(low)) / F32(255)
    zero = np.rint(F32(-128) - F32(low) / step)
    inside_step = F32(inside) / F32(127)

    def row(x: Array, gate_up: Array, down: Array, dtype: torch.dtype) -> Array:
        multiplier = rounded(F32(1) / step, dtype)
        gate_up = gate_up / (multiplier * step)
        first_scale = np.abs(gate_up).max(-1) / F32(127) * step
        first = np.clip(np.rint(gate_up / (first_scale / step)[:, None]), -127, 127).astype(np.int64)
        acc = first @ to_int8(x * multiplier + zero).astype(np.int64) - (zero * first.sum(-1)).astype(np.int64)
        middle = to_int8(swiglu(acc.astype(F32) * first_scale) * (F32(1) / inside_step))
        second_scale = np.abs(down).max(-1) / F32(127) * inside_step
        second_scale = rounded(second_scale, dtype) if dtype == torch.bfloat16 else second_scale
        second = np.clip(np.rint(down / (second_scale / inside_step)[:, None]), -127, 127).astype(np.int64)
        return rounded(product(middle, second) * second_scale, dtype)

    return row


def mixture(
    row_of: Callable[..., Array], experts: Experts, hidden: Tensor, top_k_index: Tensor, top_k_weights: Tensor
) -> Tensor:
    """The rows that ``row_of`` makes of each token, weighted and added up as npu_moe_finalize_routing does."""
    dtype = hidden.dtype
    gate_up, down = numbers(experts.gate_up_proj.detach()), numbers(experts.down_proj.detach())
    between = torch.float16 if dtype == torch.float16 else torch.float32
    shares = numbers(top_k_weights.to(between))
    results = []
    for x, chosen, share in zip(numbers(hidden), top_k_index.tolist(), shares, strict=True):
        total = None
        for expert, weight in zip(chosen, share, strict=True):
            term = rounded(row_of(x, gate_up[expert], down[expert], dtype) * weight, between)
            total = term if total is None else rounded(total + term, between)
        results.append(torch.from_numpy(rounded(total, dtype)).to(dtype))
    return torch.stack(results)
