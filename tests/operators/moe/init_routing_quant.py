"""Calls of npu_moe_init_routing_quant."""

from typing import Any

import numpy as np
import torch
import torch_npu
from hypothesis import strategies as st

from support.call_strategies import FLOATS, SIZES, Draw, mostly, optional, tensor
from support.call_table import Case, Statement, bad, good
from support.numpy_rules import Floats, floats, integers
from support.tensors import bf16, f16, f32, f64, i8

OP = "moe_init_routing_quant"


def experts(rows: int, k: int, count: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(rows * 100 + k * 10 + count)
    return torch.randint(0, count, (rows, k), generator=generator, dtype=torch.int32)


E8 = experts(6, 3, 8)
ALL: dict[str, Any] = {"active_num": 0, "expert_num": 8}
STATIC: dict[str, Any] = {**ALL, "scale": f32(1), "offset": f32(1), "quant_mode": 0}
DROP: dict[str, Any] = {"expert_num": 8, "drop_pad_mode": 1, "expert_capacity": 2}
GOOD = [
    good(OP, "default", f16(6, 16), E8),
    good(OP, "counts", bf16(6, 16), E8, expert_tokens_num_mode=2, **ALL),
    good(OP, "running sum", f32(6, 5), E8, expert_tokens_num_mode=1, **ALL),
    good(OP, "fewer active rows", f16(6, 16), E8, active_num=5, expert_num=8),
    good(OP, "experts without a number", f16(6, 16), E8 * 1000, expert_num=0),
    good(OP, "static", bf16(6, 16), E8, expert_tokens_num_mode=2, **STATIC),
    good(OP, "static float32", f32(6, 16) * 1e5, E8, **STATIC),
    good(OP, "one smooth row", f16(6, 16), E8, scale=f32(1, 16), **ALL),
    good(OP, "a row an expert", bf16(6, 16), E8, scale=f32(8, 16), **ALL),
    good(OP, "capacity", f16(6, 16), E8, **DROP),
    good(OP, "capacity, static", f16(6, 16), E8, **{**STATIC, **DROP}),
    good(OP, "capacity, counted", bf16(6, 16), E8, scale=f32(8, 16), expert_tokens_before_capacity_flag=True, **DROP),
    good(OP, "capacity and a count not given", bf16(6, 16), E8, expert_tokens_num_mode=2, **DROP),
    good(OP, "one token", bf16(1, 16), experts(1, 8, 16), scale=f32(16, 16), expert_num=16),
]
WRONG = [
    bad(OP, "x", "x int8", i8(6, 16), E8),
    bad(OP, "x", "x float64", f64(6, 16), E8),
    bad(OP, "x", "x of one dimension", f16(6), E8),
    bad(OP, "x.size(0)", "no token", f16(0, 16), E8[:0]),
    bad(OP, "expert_idx", "expert_idx int64", f16(6, 16), E8.long()),
    bad(OP, "expert_idx", "expert_idx of one dimension", f16(6, 16), E8[:, 0]),
    bad(OP, "expert_idx.size(0)", "experts of fewer tokens", f16(6, 16), E8[:4]),
    bad(OP, "expert_idx.size(1)", "no expert", f16(6, 16), E8[:, :0]),
    bad(OP, "quant_mode", "not quantised", f16(6, 16), E8, quant_mode=-1),
    bad(OP, "drop_pad_mode", "drop_pad_mode 2", f16(6, 16), E8, drop_pad_mode=2),
    bad(OP, "expert_tokens_num_mode", "count mode 3", f16(6, 16), E8, expert_tokens_num_mode=3),
    bad(OP, "expert_num", "fewer than no experts", f16(6, 16), E8, expert_num=-1),
    bad(OP, "expert_num", "counts of no expert", f16(6, 16), E8, expert_num=0, expert_tokens_num_mode=1),
    bad(OP, "active_num", "active_num -1", f16(6, 16), E8, active_num=-1),
    bad(OP, "scale", "static without scale", f16(6, 16), E8, offset=f32(1), quant_mode=0),
    bad(OP, "offset", "static without offset", f16(6, 16), E8, scale=f32(1), quant_mode=0),
    bad(OP, "scale", "static scale float16", f16(6, 16), E8, scale=f16(1), offset=f32(1), quant_mode=0),
    bad(OP, "scale.size(0)", "two scales", f16(6, 16), E8, scale=f32(2), offset=f32(1), quant_mode=0),
    bad(OP, "offset", "offset of two dimensions", f16(6, 16), E8, scale=f32(1), offset=f32(1, 1), quant_mode=0),
    bad(OP, "offset", "offset of a dynamic scale", f16(6, 16), E8, offset=f32(1)),
    bad(OP, "scale", "smooth float16", f16(6, 16), E8, scale=f16(8, 16), **ALL),
    bad(OP, "scale", "smooth of one dimension", f16(6, 16), E8, scale=f32(16), **ALL),
    bad(OP, "scale.size(0)", "smooth rows", f16(6, 16), E8, scale=f32(3, 16), **ALL),
    bad(OP, "scale.size(1)", "smooth too narrow", f16(6, 16), E8, scale=f32(8, 8), **ALL),
    bad(OP, "expert_capacity", "no capacity", f16(6, 16), E8, expert_num=8, drop_pad_mode=1),
    bad(OP, "expert_capacity", "too much capacity", f16(6, 16), E8, **{**DROP, "expert_capacity": 7}),
]
WRONG_VALUES = [
    bad(OP, "expert_idx[", "negative expert", f16(6, 16), E8 - 1, **ALL),
    bad(OP, "expert_idx[", "expert beyond the last", f16(6, 16), E8 + 8, expert_tokens_num_mode=2, **ALL),
    bad(OP, "expert_idx[", "expert beyond capacity's last", f16(6, 16), E8 + 8, **DROP),
    bad(OP, "expert_idx[", "expert beyond the smooth rows", f16(6, 16), E8 + 8, scale=f32(8, 16), **ALL),
]


def golden(**options: Any) -> Case:
    def call(x: torch.Tensor, expert_idx: torch.Tensor) -> list[torch.Tensor]:
        results = torch_npu.npu_moe_init_routing_quant(x, expert_idx, **options)
        return [result for result in results if result is not None]

    return call, (bf16(6, 16), E8)


GOLDEN = {"moe_init_routing_quant": golden(expert_tokens_num_mode=2, **ALL)}


@st.composite
def calls(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    rows, width, k, count = draw(SIZES), draw(SIZES), draw(st.sampled_from([0, 1, 2, 3])), draw(st.sampled_from([2, 4]))
    mode = mostly(draw, draw(st.sampled_from([0, 1])), st.sampled_from([2, -1]))
    options = {
        "scale": optional(draw, (1,) if mode == 0 else (draw(st.sampled_from([1, count])), width), torch.float32),
        "offset": tensor(draw, (1,), torch.float32) if mostly(draw, mode == 0, st.booleans()) else None,
        "active_num": draw(st.sampled_from([0, 3, 100, -2])),
        "expert_capacity": draw(st.sampled_from([0, 1, 2])),
        "expert_num": mostly(draw, count, st.sampled_from([0, -1])),
        "drop_pad_mode": draw(st.sampled_from([0, 0, 1])),
        "expert_tokens_num_mode": draw(st.sampled_from([0, 1, 2])),
        "expert_tokens_before_capacity_flag": draw(st.booleans()),
        "quant_mode": mode,
    }
    return (tensor(draw, (rows, width), *FLOATS), tensor(draw, (rows, k), torch.int32) - 1), options


CALLS = {f"npu_{OP}": calls()}


@st.composite
def right_calls(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    rows, width, k = draw(st.integers(1, 9)), draw(st.integers(1, 20)), draw(st.integers(1, 5))
    count, drop, mode = draw(st.integers(1, 8)), draw(st.integers(0, 2)) == 0, draw(st.sampled_from([0, 1, 1]))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    x = torch.randn(rows, width, generator=generator) * 10.0 ** draw(st.integers(-6, 6))
    x[torch.rand(rows, generator=generator) < 0.1] = 0
    scale = offset = None
    if mode == 0:
        scale, offset = torch.rand(1, generator=generator) * 40, torch.randn(1, generator=generator) * 3
    elif draw(st.booleans()):
        scale = torch.randn(draw(st.sampled_from([1, count])), width, generator=generator)
    options = {
        "scale": scale,
        "offset": offset,
        "active_num": draw(st.sampled_from([0, 3, 100])),
        "expert_capacity": draw(st.integers(1, rows)) if drop else 0,
        "expert_num": count,
        "drop_pad_mode": int(drop),
        "expert_tokens_num_mode": draw(st.sampled_from([0, 1, 2])),
        "expert_tokens_before_capacity_flag": draw(st.booleans()),
        "quant_mode": mode,
    }
    expert_idx = torch.randint(0, count, (rows, k), generator=generator, dtype=torch.int32)
    return (x.to(draw(st.sampled_from(FLOATS))), expert_idx), options


def statement(x: torch.Tensor, expert_idx: torch.Tensor, **options: Any) -> list[Any]:
    """Pair by pair, as in the kernel; results that are not requested are omitted."""
    (rows, width), k = x.shape, expert_idx.shape[1]
    count, capacity, mode = options["expert_num"], options["expert_capacity"], options["quant_mode"]
    expert_of = expert_idx.reshape(-1).tolist()
    order = sorted(range(rows * k), key=lambda pair: expert_of[pair])
    counts = np.bincount(expert_of, minlength=count).astype(np.int32)
    row_idx = np.full(rows * k, -1, np.int32)
    if options["drop_pad_mode"]:
        slots = [-1] * (count * capacity)
        for expert in range(count):
            for position, pair in enumerate([pair for pair in order if expert_of[pair] == expert][:capacity]):
                slots[expert * capacity + position] = pair
                row_idx[pair] = expert * capacity + position
    else:
        row_idx[order] = np.arange(rows * k)
        slots = order[: options["active_num"] or None]
    expanded, scales = np.zeros((len(slots), width), np.int8), np.zeros(len(slots), np.float32)
    for slot, pair in enumerate(slots):
        if pair >= 0:
            expanded[slot], scales[slot] = quantised(x[pair // k], expert_of[pair], options)
    results: list[Any] = [expanded.reshape(count, capacity, width) if options["drop_pad_mode"] else expanded, row_idx]
    if options["expert_tokens_num_mode"] and not options["drop_pad_mode"]:
        results.append(counts if options["expert_tokens_num_mode"] == 2 else np.cumsum(counts))
    if options["expert_tokens_before_capacity_flag"] and options["drop_pad_mode"]:
        results.append(counts)
    return [*results, scales] if mode == 1 else results


def quantised(row: torch.Tensor, expert: int, options: dict[str, Any]) -> tuple[Any, Any]:
    scale, offset = options["scale"], options["offset"]
    with np.errstate(all="ignore"):
        if options["quant_mode"] == 0:
            half = floats(row).astype(np.float16) * floats(scale).astype(np.float16)
            return integers((half + floats(offset).astype(np.float16)).astype(np.float32), "int8"), 0
        values = floats(row) if scale is None else floats(row) * floats(scale)[min(expert, len(scale) - 1)]
        largest = np.max(np.abs(values)) / np.float32(127)
        return integers(half_away(values / largest), "int8"), largest


def half_away(values: Floats) -> Floats:
    """Truncated to float16, then rounded half away from zero."""
    half = values.astype(np.float16)
    too_large = np.abs(half.astype(np.float64)) > np.abs(values.astype(np.float64))
    cut = np.where(too_large, np.nextafter(half, np.float16(0)), half).astype(np.float64)
    return (np.sign(cut) * np.floor(np.abs(cut) + 0.5)).astype(np.float32)


STATEMENTS = {f"npu_{OP}": Statement(statement, right_calls())}
