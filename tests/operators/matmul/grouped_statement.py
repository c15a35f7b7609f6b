"""npu_grouped_matmul in NumPy, written from the documents and the source of the kernels."""

from typing import Any

import numpy as np
import torch

from support.arrays import as_bf16, exp, floor_bf16, int4_elements, numbers, rounded

Array = Any
ONE = np.float32(1)


def sizes_of(group_list: torch.Tensor, kind: int) -> list[tuple[int, int]]:
    """The weight and the size of each group, in the order of the rows."""
    values = group_list.numpy()
    if kind == 2:
        used = int(np.argmin(values[:, 1] > 0)) if (values[:, 1] == 0).any() else len(values)
        return [(int(weight), int(size)) for weight, size in values[:used]]
    return [(index, int(size)) for index, size in enumerate(np.diff(values, prepend=0) if kind == 0 else values)]


def activated(v: Array, act_type: int) -> Array:
    if act_type == 1:
        return np.maximum(v, np.float32(0))
    if act_type == 2:
        return v / (ONE + exp((v + v * v * v * np.float32(0.044715)) * np.float32(-1.5957691)))
    if act_type == 4:
        return v / (ONE + exp(v * np.float32(-1.702)))
    return v / (ONE + exp(-v)) if act_type == 5 else v


def nineteen_bits(params: Array) -> Array:
    return (params & 0xFFFFE000).astype(np.uint32).view(np.float32)


def from_params(acc: Array, params: Array) -> Array:
    offset = (params >> 37) & 0x1FF
    scaled = np.clip(np.rint(acc.astype(np.float32) * nineteen_bits(params)), -256, 255)
    return np.clip(scaled + np.where(offset > 255, offset - 512, offset), -128, 127).astype(np.int8)


def in_halves(x: Array, w: Array, params: Array) -> Array:
    """float16 products of the groups of k, added in float16."""
    scales = nineteen_bits(params).reshape(-1, w.shape[1])
    total, depth = np.zeros((len(x), w.shape[1]), np.float16), len(w) // len(scales)
    for index, scale in enumerate(scales):
        rows = slice(index * depth, (index + 1) * depth)
        with np.errstate(over="ignore", invalid="ignore"):
            total = total + ((x[:, rows] @ w[rows]).astype(np.float32) * scale).astype(np.float16)
    return total.astype(np.float32)


def restored(x: torch.Tensor, w: torch.Tensor, scale: torch.Tensor, offset: torch.Tensor | None) -> Array:
    """The dequantised weight, in the dtype of x."""
    along = -1 if w.size(0) == x.size(-1) else 0
    integers = int4_elements(w, along) if w.dtype == torch.int32 else w.numpy()
    kind = np.float16 if x.dtype == torch.float16 else np.float32

    def spread(parameter: torch.Tensor) -> Array:
        rows = numbers(parameter).reshape(-1, integers.shape[1]).astype(kind)
        return np.repeat(rows, len(integers) // len(rows), 0)

    values = integers.astype(kind)
    values = (values if offset is None else values + spread(offset)) * spread(scale)
    return values.astype(np.float32) if kind is np.float16 else as_bf16(values)


def group(
    x: torch.Tensor, w: torch.Tensor, p: dict[str, Any], tokens: Array, out: torch.dtype, act: int, rows: int
) -> Array:
    """One group: rows x, their weight w and its parameters p; ``rows`` is the expected number of rows per expert."""
    scale, bias, offset = (p.get(name) for name in ("scale", "bias", "offset"))
    if x.is_floating_point():
        weight = numbers(w)
        if not w.is_floating_point():
            weight = restored(x, w, p["antiquant_scale"], p.get("antiquant_offset"))
        # The data are such that float32 sums are exact, in whatever order.
        y = numbers(x).astype(np.float64) @ weight.astype(np.float64)
        return rounded((y if bias is None else y + numbers(bias)).astype(np.float32), out)
    left, right = (
        (int4_elements(operand) if operand.dtype == torch.int32 else operand.numpy()).astype(np.int64)
        for operand in (x, w)
    )
    if x.dtype == torch.int32:
        y = in_halves(left, right, scale.numpy())
        return rounded(y if tokens is None else y * tokens, out)
    if w.dtype == torch.int32:
        if scale.numel() == right.shape[1] and offset is None and rows and right.shape[1] // rows <= 4:
            scales = (scale.numpy() & 0xFFFFFFFF).astype(np.uint32).view(np.float32).reshape(-1)
            scales = floor_bf16(scales) if out == torch.bfloat16 else scales
            return rounded((left @ right).astype(np.float32) * scales * tokens, out)
        high, low = (in_halves(half, right, scale.numpy()) for half in (left // 16, left % 16 - 8))
        y = low + high * np.float32(16) + bias.numpy()
        if offset is not None:
            y = left.sum(1, keepdims=True).astype(np.float32) * offset.numpy().reshape(-1) + y
        return rounded(y * tokens, out)
    acc = left @ right
    if bias is not None and bias.dtype == torch.int32:
        acc, bias = acc + bias.numpy(), None
    if out == torch.int32:
        return acc.astype(np.int32)
    if out == torch.int8:
        return from_params(acc, scale.numpy())
    y = acc.astype(np.float32) * numbers(scale)
    y = y if tokens is None else y * tokens
    return rounded(activated(y if bias is None else y + numbers(bias), act), out)


def expected(
    x: list[torch.Tensor],
    weight: list[torch.Tensor],
    *,
    per_token_scale: list[torch.Tensor] | None = None,
    group_list: torch.Tensor | list[int] | None = None,
    split_item: int = 0,
    group_type: int | None = None,
    group_list_type: int = 0,
    act_type: int = 0,
    tuning_config: list[int] | None = None,
    output_dtype: torch.dtype | None = None,
    **lists: list[torch.Tensor] | None,
) -> list[Array]:
    """The results of a call; rows of no group are zero."""
    out, one = output_dtype or x[0].dtype, weight[0].dim() == 3
    ends = torch.tensor(group_list) if isinstance(group_list, list) else group_list
    tokens = None if per_token_scale is None else per_token_scale[0].numpy().reshape(-1, 1)
    rows = (tuning_config or [0])[0] or x[0].size(0) // (weight[0].size(0) if one else len(weight))

    def multiplied(left: torch.Tensor, number: int, scales: Array = None) -> Array:
        parameters = {
            name: tensors[0][number] if one else tensors[number] for name, tensors in lists.items() if tensors
        }
        taken = weight[0][number] if one else weight[number]
        y = group(left.flatten(0, -2), taken, parameters, scales, out, act_type, rows)
        return y.reshape(*left.shape[:-1], y.shape[-1])

    if group_type == 2:
        y, start = np.zeros((len(ends), x[0].size(0), weight[0].size(1)), np.float32), 0
        for index, size in sizes_of(ends, group_list_type):
            part = slice(start, start + size)
            y[index] = group(x[0][:, part], weight[0][part], {}, None, out, 0, 0) if size else 0
            start += size
        return [y]
    if len(x) > 1 or ends is None:
        parts = [multiplied(left, index) for index, left in enumerate(x)]
        return [np.concatenate(parts)] if split_item in (2, 3) else parts
    parts, start = [], 0
    for index, size in sizes_of(ends, group_list_type):
        part = slice(start, start + size)
        parts.append(multiplied(x[0][part], index, None if tokens is None else tokens[part]))
        start += size
    if split_item in (0, 1):
        return parts
    rest = multiplied(x[0][start:], 0, None if tokens is None else tokens[start:])
    return [np.concatenate([*parts, np.zeros_like(rest)])]
