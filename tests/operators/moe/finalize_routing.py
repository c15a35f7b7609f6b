"""Calls of npu_moe_finalize_routing."""

from typing import Any

import numpy as np
import torch
import torch_npu
from hypothesis import strategies as st

from support.call_strategies import FLOATS, Draw, mostly, optional, tensor
from support.call_table import Case, Statement, bad, good
from support.numpy_rules import floats
from support.tensors import bf16, f16, f32, f64

OP = "moe_finalize_routing"


def index(rows: int, low: int = 0, size: int | None = None) -> torch.Tensor:
    generator = torch.Generator().manual_seed(rows)
    if size is None:
        return torch.randperm(rows, generator=generator).to(torch.int32)
    return torch.randint(low, rows, (size,), generator=generator, dtype=torch.int32)


E12 = torch.arange(12, dtype=torch.int32).reshape(4, 3) % 5
ROWS, SCALES = bf16(12, 16), bf16(4, 3)
GOOD = [
    good(OP, "all", f32(12, 7), f32(4, 7), f32(4, 7), f32(5, 7), f32(4, 3), index(12), E12),
    good(OP, "all, float16", f16(12, 16), f16(4, 16), f16(4, 16), f16(5, 16), f16(4, 3), index(12), E12, 2),
    good(OP, "bfloat16, token by token", ROWS, None, None, None, SCALES, index(12), None, drop_pad_mode=2),
    good(OP, "float32 scales", ROWS, bf16(4, 16), None, None, f32(4, 3), index(12), E12, drop_pad_mode=2),
    good(OP, "float32 scales and all else", ROWS, bf16(4, 16), None, bf16(5, 16), f32(4, 3), index(12), E12),
    good(OP, "no scales", f32(12, 16), None, None, None, None, index(12), None),
    good(OP, "no scales, three rows a token", f32(12, 16), f32(4, 16), None, None, None, index(12), None, 2, 3),
    good(OP, "k and scales", f16(12, 16), None, None, None, f16(4, 3), index(12), None, 0, 3),
    good(OP, "dropped", bf16(5, 2, 16), None, None, bf16(5, 16), SCALES, index(10, -1, 12), E12, drop_pad_mode=1),
    good(OP, "dropped, token by token", f16(5, 2, 16), f16(4, 16), None, None, f16(4, 3), index(10, -1, 12), None, 3),
    good(OP, "one token", bf16(8, 16), None, None, None, bf16(1, 8), index(8), None, drop_pad_mode=2),
    good(OP, "transposed rows", f32(7, 12).t(), None, None, None, f32(4, 3), index(12), None, None, None),
]
WRONG = [
    bad(OP, "expanded_permuted_rows", "rows of one dimension", f32(12), None, None, None, f32(4, 3), index(12), None),
    bad(OP, "expanded_permuted_rows", "rows float64", f64(12, 16), None, None, None, None, index(12), None),
    bad(OP, "expanded_permuted_rows", "matrix with dropping", ROWS, None, None, None, SCALES, index(12), None, 1),
    bad(OP, "expanded_permuted_rows", "no columns", bf16(12, 0), None, None, None, SCALES, index(12), None),
    bad(OP, "expanded_permuted_rows.size(0)", "a row short", bf16(11, 16), None, None, None, SCALES, index(12), None),
    bad(OP, "expanded_src_to_dst_row", "index int64", ROWS, None, None, None, SCALES, index(12).long(), None),
    bad(OP, "expanded_src_to_dst_row", "index matrix", ROWS, None, None, None, SCALES, index(12)[None], None),
    bad(OP, "expanded_src_to_dst_row", "empty index", bf16(5, 2, 16), None, None, None, bf16(0, 3), index(0), None, 1),
    bad(OP, "drop_pad_mode", "mode 4", ROWS, None, None, None, SCALES, index(12), None, 4),
    bad(OP, "k", "k zero", ROWS, None, None, None, None, index(12), None, 0, 0),
    bad(OP, "expanded_src_to_dst_row", "k no divisor", ROWS, None, None, None, None, index(12), None, 0, 5),
    bad(OP, "scales.size(1)", "k unlike scales", ROWS, None, None, None, SCALES, index(12), None, 0, 4),
    bad(OP, "scales", "scales float32 for float16", f16(12, 16), None, None, None, f32(4, 3), index(12), None),
    bad(OP, "scales", "scales of one dimension", ROWS, None, None, None, bf16(12), index(12), None),
    bad(OP, "scales", "no scales in it", ROWS, None, None, None, bf16(12, 0), index(12), None),
    bad(OP, "expanded_src_to_dst_row", "scales of fewer pairs", ROWS, None, None, None, bf16(3, 3), index(12), None),
    bad(OP, "skip1", "skip1 float32", ROWS, f32(4, 16), None, None, SCALES, index(12), None),
    bad(OP, "skip1", "skip1 of one dimension", ROWS, bf16(16), None, None, SCALES, index(12), None),
    bad(OP, "skip1.size(0)", "skip1 short", ROWS, bf16(3, 16), None, None, SCALES, index(12), None),
    bad(OP, "skip2.size(1)", "skip2 narrow", ROWS, bf16(4, 16), bf16(4, 8), None, SCALES, index(12), None),
    bad(OP, "skip2", "skip2 alone", ROWS, None, bf16(4, 16), None, SCALES, index(12), None),
    bad(OP, "bias", "bias float32", ROWS, None, None, f32(5, 16), SCALES, index(12), E12),
    bad(OP, "bias", "bias of one dimension", ROWS, None, None, bf16(16), SCALES, index(12), E12),
    bad(OP, "bias.size(1)", "bias narrow", ROWS, None, None, bf16(5, 8), SCALES, index(12), E12),
    bad(OP, "bias.size(0)", "fewer experts than a token has", ROWS, None, None, bf16(2, 16), SCALES, index(12), E12),
    bad(
        OP, "bias.size(0)", "bias of other experts", bf16(5, 3, 16), None, None, bf16(4, 16), SCALES, index(12), E12, 1
    ),
    bad(OP, "export_for_source_row", "bias without experts", ROWS, None, None, bf16(5, 16), SCALES, index(12), None),
    bad(OP, "export_for_source_row", "experts int64", ROWS, None, None, None, SCALES, index(12), E12.long()),
    bad(OP, "export_for_source_row", "experts in a row", ROWS, None, None, None, SCALES, index(12), E12.reshape(-1)),
    bad(OP, "export_for_source_row.size(0)", "tokens short", ROWS, None, None, None, SCALES, index(12), E12[:3]),
    bad(OP, "export_for_source_row.size(1)", "experts short", ROWS, None, None, None, SCALES, index(12), E12[:, :2]),
]
GOOD_950 = [
    good(OP, "float32 scales of float16", f16(12, 16), None, None, None, f32(4, 3), index(12), None),
    good(OP, "rows for some pairs", bf16(9, 16), None, None, None, SCALES, index(12), None, drop_pad_mode=2),
    good(OP, "pairs that are dropped", bf16(12, 16), None, None, None, SCALES, index(12) - 1, None, drop_pad_mode=2),
]
WRONG_VALUES = [
    bad(OP, "expanded_src_to_dst_row[", "row beyond", ROWS, None, None, None, SCALES, index(12) + 1, None),
    bad(
        OP, "expanded_src_to_dst_row[", "dropped where none is", ROWS, None, None, None, SCALES, index(12) - 1, None, 2
    ),
    bad(OP, "export_for_source_row[", "expert beyond", ROWS, None, None, bf16(4, 16), SCALES, index(12), E12),
]


def golden(mode: int) -> Case:
    def call(rows: torch.Tensor, skip: torch.Tensor, scales: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
        return torch_npu.npu_moe_finalize_routing(rows, skip, None, None, scales, order, None, drop_pad_mode=mode)

    return call, (ROWS, bf16(4, 16), SCALES, index(12))


GOLDEN = {"moe_finalize_routing": golden(2)}


@st.composite
def calls(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    tokens, k, width = draw(st.sampled_from([0, 1, 2, 4])), draw(st.sampled_from([1, 2])), draw(st.sampled_from([1, 8]))
    mode = draw(st.sampled_from([0, 1, 2, 3, None]))
    rows = tensor(draw, (2, tokens, width) if mode in (1, 3) else (tokens * k, width), *FLOATS)
    skips = [optional(draw, (tokens, width), rows.dtype) for _ in range(2)]
    bias = optional(draw, (2, width), rows.dtype)
    scales = optional(draw, (tokens, k), rows.dtype)
    order = tensor(draw, (tokens * k,), torch.int32) - 1
    experts = tensor(draw, (tokens, k), torch.int32) if mostly(draw, bias is not None, st.booleans()) else None
    return (rows, *skips, bias, scales, order, experts, mode, draw(st.sampled_from([None, 1, k]))), {}


CALLS = {"npu_moe_finalize_routing": calls()}


@st.composite
def right_calls(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    tokens, k, width = draw(st.integers(1, 9)), draw(st.integers(1, 5)), draw(st.integers(1, 20))
    mode, dtype = draw(st.integers(0, 3)), draw(st.sampled_from(FLOATS))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))

    def numbers(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator).to(dtype)

    experts = draw(st.integers(k, 6))
    capacity = draw(st.integers(1, 4))
    rows = numbers(experts, capacity, width) if mode in (1, 3) else numbers(tokens * k, width)
    skip1 = numbers(tokens, width) if draw(st.booleans()) else None
    skip2 = numbers(tokens, width) if skip1 is not None and draw(st.booleans()) else None
    bias = numbers(experts, width) if draw(st.booleans()) else None
    scales = numbers(tokens, k) if draw(st.booleans()) else None
    if scales is not None and dtype == torch.bfloat16 and draw(st.booleans()):
        scales = torch.randn(tokens, k, generator=generator)
    low, high = (-1, experts * capacity) if mode in (1, 3) else (0, tokens * k)
    order = torch.randint(low, high, (tokens * k,), generator=generator, dtype=torch.int32)
    chosen = torch.randint(0, experts, (tokens, k), generator=generator, dtype=torch.int32)
    return (rows, skip1, skip2, bias, scales, order, chosen, mode, k), {}


def statement(
    rows: torch.Tensor,
    skip1: torch.Tensor | None,
    skip2: torch.Tensor | None,
    bias: torch.Tensor | None,
    scales: torch.Tensor | None,
    order: torch.Tensor,
    chosen: torch.Tensor,
    mode: int,
    k: int,
) -> Any:
    """Token by token, every step in float16 for float16 and in float32 otherwise."""
    kind = np.float16 if rows.dtype == torch.float16 else np.float32
    values = floats(rows).reshape(-1, rows.shape[-1]).astype(kind)
    tokens = chosen.shape[0]
    out = np.zeros((tokens, values.shape[1]), kind)
    for token in range(tokens):
        total = None if skip1 is None else floats(skip1)[token].astype(kind)
        if total is not None and skip2 is not None:
            total = total + floats(skip2)[token].astype(kind)
        for choice in range(k):
            source = int(order[token * k + choice] if mode in (2, 3) else order[choice * tokens + token])
            term = np.zeros(values.shape[1], kind)
            if source >= 0:
                term = values[source]
                if bias is not None:
                    term = term + floats(bias)[int(chosen[token, choice])].astype(kind)
                if scales is not None:
                    term = term * floats(scales)[token, choice].astype(kind)
            total = term if total is None else total + term
        assert total is not None
        out[token] = total
    return torch.from_numpy(out.astype(np.float32)).to(rows.dtype)


STATEMENTS = {"npu_moe_finalize_routing": Statement(statement, right_calls())}


def statement_950(*args: Any) -> Any:
    """As on A2 and A3 in float32, from zero; pairs without a row add nothing."""
    (rows, skip1, skip2, bias, scales, order, chosen, mode, k), dtype = args, args[0].dtype
    wide = [None if tensor is None else tensor.float() for tensor in (rows, skip1, skip2, bias, scales)]
    wide[1] = torch.zeros(len(chosen), rows.shape[-1]) if skip1 is None else wide[1]
    beyond = order >= rows.flatten(0, -2).shape[0]
    return statement(*wide, torch.where(beyond, -1, order), chosen, mode, k).to(dtype)


@st.composite
def calls_950(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    (rows, skip1, skip2, bias, scales, order, chosen, mode, k), _ = draw(right_calls())
    if scales is not None:
        scales = scales.to(draw(st.sampled_from(FLOATS)))
    if mode in (0, 2):
        rows, order = rows[: draw(st.integers(1, len(rows)))], order - draw(st.integers(0, 1))
    return (rows, skip1, skip2, bias, scales, order, chosen, mode, k), {}


STATEMENTS_950 = {"npu_moe_finalize_routing": Statement(statement_950, calls_950())}
