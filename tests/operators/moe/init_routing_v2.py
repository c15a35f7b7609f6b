"""Calls of npu_moe_init_routing_v2."""

from typing import Any

import numpy as np
import torch
import torch_npu
from hypothesis import strategies as st

from support.call_strategies import FLOATS, SIZES, Draw, mostly, optional, tensor
from support.call_table import Case, Statement, bad, good
from support.numpy_rules import floats, integers
from support.tensors import bf16, f16, f32, f64, i8

OP = "moe_init_routing_v2"


def experts(rows: int, k: int, count: int, low: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(rows * 100 + k * 10 + count)
    return torch.randint(low, count, (rows, k), generator=generator, dtype=torch.int32)


E8 = experts(6, 3, 8)
COUNTS = {"expert_num": 8, "expert_tokens_num_type": 1, "expert_tokens_num_flag": True}
DROP = {"expert_num": 8, "drop_pad_mode": 1, "expert_capacity": 2}
GOOD = [
    good(OP, "default", f16(6, 16), E8, expert_num=8),
    good(OP, "counts", bf16(6, 16), E8, active_num=18, **COUNTS),
    good(OP, "float32 with scales, a range", f32(6, 5), E8, scale=f32(6), active_expert_range=[2, 6], **COUNTS),
    good(OP, "int8, scatter index", i8(6, 16), E8, row_idx_type=1, **COUNTS),
    good(OP, "fewer active rows", f16(6, 16), E8, active_num=5, expert_num=8, row_idx_type=1),
    good(
        OP,
        "key-value, a range of many experts",
        f16(6, 16),
        E8,
        expert_num=5200,
        active_expert_range=[2, 6],
        expert_tokens_num_type=2,
        expert_tokens_num_flag=True,
    ),
    good(OP, "running sum", f16(6, 16), E8, expert_num=8, expert_tokens_num_flag=True),
    good(
        OP,
        "key-value",
        f16(6, 16),
        E8,
        active_expert_range=[3, 5],
        **{**COUNTS, "expert_tokens_num_type": 2},
        quant_mode=1,
    ),
    good(OP, "pairs without an expert", f16(6, 16), experts(6, 3, 8, -1), active_expert_range=[0, 4], **COUNTS),
    good(OP, "no pair here", f16(2, 16), experts(2, 3, 4), active_expert_range=[6, 8], **COUNTS),
    good(OP, "static", bf16(6, 16), E8, scale=f32(1), offset=f32(1), quant_mode=0, **COUNTS),
    good(OP, "dynamic", bf16(6, 16), E8, quant_mode=1, **COUNTS),
    good(OP, "dynamic, one smooth row", f16(6, 16), E8, scale=f32(1, 16), quant_mode=1, **COUNTS),
    good(OP, "dynamic, a row an expert", bf16(6, 16), E8, scale=f32(8, 16), quant_mode=1, active_num=18, **COUNTS),
    good(
        OP, "dynamic in a range", f32(6, 16), E8, scale=f32(3, 16), quant_mode=1, active_expert_range=[1, 4], **COUNTS
    ),
    good(OP, "capacity", f16(6, 16), E8, **DROP),
    good(OP, "capacity, static", f16(6, 16), E8, scale=f32(1), offset=f32(1), quant_mode=0, **DROP),
    good(OP, "capacity, dynamic", bf16(6, 16), E8, scale=f32(8, 16), quant_mode=1, **{**COUNTS, **DROP}),
    good(OP, "one token", bf16(1, 16), experts(1, 8, 16), scale=f32(16, 16), quant_mode=1, expert_num=16),
    good(
        OP, "no token", bf16(0, 16), experts(0, 8, 16), scale=f32(16, 16), quant_mode=1, **{**COUNTS, "expert_num": 16}
    ),
    good(
        OP, "no token, scale not looked at", bf16(0, 16), experts(0, 8, 16), scale=f32(0), quant_mode=1, expert_num=16
    ),
    good(OP, "no token, static", bf16(0, 16), experts(0, 8, 16), quant_mode=0, expert_num=16),
    good(OP, "transposed x", f16(16, 6).t(), E8, **COUNTS),
    good(OP, "x_dtype of int8 rows", i8(6, 16), E8, scale=f32(6), expert_num=8, x_dtype=1),
    good(OP, "x_dtype to be quantised", f16(6, 16), E8, expert_num=8, quant_mode=1, x_dtype=1),
]
WRONG = [
    bad(OP, "x", "x of one dimension", f16(6), E8, expert_num=8),
    bad(OP, "x", "x float64", f64(6, 16), E8, expert_num=8),
    bad(OP, "x", "int8 to be quantised", i8(6, 16), E8, expert_num=8, quant_mode=1),
    bad(OP, "x.size(1)", "no column", f16(6, 0), E8, expert_num=8),
    bad(OP, "expert_idx", "expert_idx int64", f16(6, 16), E8.long(), expert_num=8),
    bad(OP, "expert_idx", "expert_idx of one dimension", f16(6, 16), E8[:, 0], expert_num=8),
    bad(OP, "expert_idx.size(0)", "experts of fewer tokens", f16(6, 16), E8[:4], expert_num=8),
    bad(OP, "expert_idx.size(1)", "no expert", f16(6, 16), E8[:, :0], expert_num=8),
    bad(OP, "quant_mode", "quant_mode of Ascend 950", f16(6, 16), E8, expert_num=8, quant_mode=2),
    bad(OP, "x_dtype", "x_dtype of Ascend 950", f16(6, 16), E8, expert_num=8, x_dtype=290),
    bad(OP, "x_dtype", "int8 as float16", i8(6, 16), E8, expert_num=8, x_dtype=5),
    bad(OP, "x_dtype", "int4 rows", f16(6, 16), E8, expert_num=8, quant_mode=1, x_dtype=285),
    bad(OP, "expert_num", "expert_num left out", f16(6, 16), E8),
    bad(OP, "expert_tokens_num_type", "count type 3", f16(6, 16), E8, expert_num=8, expert_tokens_num_type=3),
    bad(OP, "row_idx_type", "row_idx_type 2", f16(6, 16), E8, expert_num=8, row_idx_type=2),
    bad(OP, "drop_pad_mode", "drop_pad_mode 2", f16(6, 16), E8, expert_num=8, drop_pad_mode=2),
    bad(OP, "active_num", "active_num -2", f16(6, 16), E8, expert_num=8, active_num=-2),
    bad(OP, "active_expert_range", "falling range", f16(6, 16), E8, expert_num=8, active_expert_range=[4, 2]),
    bad(
        OP, "active_expert_range", "range beyond the experts", f16(6, 16), E8, expert_num=8, active_expert_range=[4, 9]
    ),
    bad(OP, "active_expert_range", "range of three", f16(6, 16), E8, expert_num=8, active_expert_range=[0, 1, 2]),
    bad(OP, "expert_num", "too many experts", f16(6, 16), E8, expert_num=10241),
    bad(OP, "expert_num", "too many experts of key-value", f16(6, 16), E8, expert_num=5121, expert_tokens_num_type=2),
    bad(
        OP,
        "active_expert_range",
        "range of key-value that ends too far",
        f16(6, 16),
        E8,
        expert_num=5200,
        expert_tokens_num_type=2,
        active_expert_range=[5100, 5121],
    ),
    bad(OP, "offset", "offset not quantised", f16(6, 16), E8, expert_num=8, offset=f32(1)),
    bad(OP, "scale", "static without scale", f16(6, 16), E8, expert_num=8, offset=f32(1), quant_mode=0),
    bad(OP, "offset", "static without offset", f16(6, 16), E8, expert_num=8, scale=f32(1), quant_mode=0),
    bad(OP, "scale", "static in half", f16(6, 16), E8, expert_num=8, scale=f16(1), offset=f32(1), quant_mode=0),
    bad(OP, "scale.size(0)", "two scales", f16(6, 16), E8, expert_num=8, scale=f32(2), offset=f32(1), quant_mode=0),
    bad(
        OP,
        "offset",
        "offset of two dimensions",
        f16(6, 16),
        E8,
        expert_num=8,
        scale=f32(1),
        offset=f32(1, 1),
        quant_mode=0,
    ),
    bad(OP, "scale", "scale float16", f16(6, 16), E8, expert_num=8, scale=f16(8, 16), quant_mode=1),
    bad(OP, "scale", "smooth of one dimension", f16(6, 16), E8, expert_num=8, scale=f32(16), quant_mode=1),
    bad(OP, "scale.size(0)", "smooth rows", f16(6, 16), E8, expert_num=8, scale=f32(3, 16), quant_mode=1),
    bad(OP, "scale.size(1)", "smooth too narrow", f16(6, 16), E8, expert_num=8, scale=f32(8, 8), quant_mode=1),
    bad(OP, "scale.size(0)", "scale of fewer tokens", f16(6, 16), E8, expert_num=8, scale=f32(5)),
    bad(OP, "scale", "scale of two dimensions", f16(6, 16), E8, expert_num=8, scale=f32(6, 1)),
    bad(OP, "expert_capacity", "no capacity", f16(6, 16), E8, expert_num=8, drop_pad_mode=1),
    bad(OP, "expert_capacity", "too much capacity", f16(6, 16), E8, expert_num=8, drop_pad_mode=1, expert_capacity=7),
    bad(OP, "row_idx_type", "capacity and scatter index", f16(6, 16), E8, row_idx_type=1, **DROP),
    bad(OP, "active_expert_range", "capacity and range", f16(6, 16), E8, active_expert_range=[0, 4], **DROP),
    bad(OP, "expert_tokens_num_type", "capacity and running sum", f16(6, 16), E8, expert_tokens_num_flag=True, **DROP),
]
WRONG_950 = [
    bad(OP, "expert_tokens_num_flag", "no counts", f16(6, 16), E8, expert_num=8),
    bad(OP, "active_num", "fewer active rows", f16(6, 16), E8, active_num=5, **COUNTS),
    bad(
        OP,
        "expert_num",
        "key-value of many experts",
        f16(6, 16),
        E8,
        expert_num=5200,
        active_expert_range=[2, 6],
        expert_tokens_num_type=2,
        expert_tokens_num_flag=True,
    ),
    bad(OP, "quant_mode", "dynamic", bf16(6, 16), E8, quant_mode=1, **COUNTS),
]
WRONG_VALUES = [
    bad(OP, "expert_idx[", "expert beyond the last", f16(6, 16), experts(6, 3, 8) + 8, expert_num=8),
    bad(OP, "expert_idx[", "no expert where all are here", f16(6, 16), experts(6, 3, 8, -3), expert_num=8),
    bad(OP, "expert_idx[", "below -1", f16(6, 16), E8 - 4, expert_num=8, active_expert_range=[0, 4]),
]


def golden(**options: Any) -> Case:
    def call(x: torch.Tensor, expert_idx: torch.Tensor, scale: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch_npu.npu_moe_init_routing_v2(x, expert_idx, scale=scale, **options)

    return call, (bf16(6, 16), E8, f32(8, 16))


GOLDEN = {"moe_init_routing_v2-dynamic": golden(quant_mode=1, **COUNTS)}


@st.composite
def calls(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    rows, width, k, count = draw(SIZES), draw(SIZES), draw(st.sampled_from([0, 1, 2, 3])), draw(st.sampled_from([1, 4]))
    mode = mostly(draw, draw(st.sampled_from([-1, 0, 1])), st.sampled_from([2, 3, -2]))
    start, end = draw(st.sampled_from([(0, count), (0, 1), (count - 1, count), (1, 0)]))
    scale_shape = {0: (1,), 1: (draw(st.sampled_from([1, end - start])), width)}.get(mode, (rows,))
    options = {
        "scale": optional(draw, tuple(max(size, 0) for size in scale_shape), torch.float32),
        "offset": tensor(draw, (1,), torch.float32) if mostly(draw, mode == 0, st.booleans()) else None,
        "active_num": draw(st.sampled_from([-1, 0, 3, 100, -2])),
        "expert_capacity": draw(st.sampled_from([-1, 1, 2])),
        "expert_num": count,
        "drop_pad_mode": draw(st.sampled_from([0, 0, 1])),
        "expert_tokens_num_type": draw(st.sampled_from([0, 1, 1, 2])),
        "expert_tokens_num_flag": draw(st.booleans()),
        "quant_mode": mode,
        "active_expert_range": mostly(draw, [start, end], st.sampled_from([[], [0, 5]])),
        "row_idx_type": draw(st.sampled_from([0, 0, 1])),
    }
    return (tensor(draw, (rows, width), *FLOATS), tensor(draw, (rows, k), torch.int32) - 1), options


CALLS = {"npu_moe_init_routing_v2": calls()}


@st.composite
def right_calls(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    rows, width, k = draw(st.integers(0, 9)), draw(st.integers(1, 20)), draw(st.integers(1, 5))
    count = draw(st.integers(1, 8))
    drop = rows > 0 and draw(st.booleans()) and draw(st.booleans())
    start = 0 if drop else draw(st.integers(0, count - 1))
    end = count if drop else draw(st.integers(start + 1, count))
    everyone = start == 0 and end == count
    mode = draw(st.sampled_from([-1, 0, 1, 1]))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    x = torch.randn(rows, width, generator=generator) * 10.0 ** draw(st.integers(-6, 6))
    x[torch.rand(rows, generator=generator) < 0.1] = 0
    expert_idx = torch.randint(0 if everyone else -1, count, (rows, k), generator=generator, dtype=torch.int32)
    has_scale = draw(st.booleans())
    scale = offset = None
    if mode == 0:
        scale, offset = torch.rand(1, generator=generator) * 40, torch.randn(1, generator=generator) * 3
    elif has_scale:
        shape = (rows,) if mode == -1 else (draw(st.sampled_from([1, end - start])), width)
        scale = torch.randn(shape, generator=generator)
    options = {
        "scale": scale,
        "offset": offset,
        "active_num": draw(st.sampled_from([-1, 0, 3, 100])),
        "expert_capacity": draw(st.integers(1, rows)) if drop else -1,
        "expert_num": count,
        "drop_pad_mode": int(drop),
        "expert_tokens_num_type": 1 if drop else draw(st.sampled_from([0, 1, 2])),
        "expert_tokens_num_flag": draw(st.booleans()),
        "quant_mode": mode,
        "active_expert_range": draw(st.sampled_from([[], [0, count]])) if everyone else [start, end],
        "row_idx_type": 0 if drop else draw(st.sampled_from([0, 1])),
    }
    return (x.to(draw(st.sampled_from(FLOATS))), expert_idx), options


def statement(x: torch.Tensor, expert_idx: torch.Tensor, **options: Any) -> tuple[Any, ...]:
    """Pair by pair, as in the document."""
    (rows, width), k = x.shape, expert_idx.shape[1]
    count, kind = options["expert_num"], options["expert_tokens_num_type"]
    start, end = options["active_expert_range"] or (0, count)
    expert_of = expert_idx.reshape(-1).tolist()
    here = [pair for expert in range(start, end) for pair in range(rows * k) if expert_of[pair] == expert]
    above = [pair for expert in range(end, count) for pair in range(rows * k) if expert_of[pair] == expert]
    order = here + above + [pair for pair in range(rows * k) if expert_of[pair] < start]

    per_expert = [sum(expert == other for other in expert_of) for expert in range(start, end)]
    listed = [[start + slot, tokens] for slot, tokens in enumerate(per_expert) if tokens]
    counts: Any = {0: np.cumsum(per_expert), 1: per_expert, 2: listed + [[0, 0]] * (count - len(listed))}[kind]
    counts = np.asarray(counts, np.int64).reshape((count, 2) if kind == 2 else (end - start,))
    if not options["expert_tokens_num_flag"]:
        counts = np.zeros_like(counts)

    row_idx = np.full(rows * k, -1, np.int32)
    capacity = options["expert_capacity"]
    if options["drop_pad_mode"]:
        slots = [-1] * (count * capacity)
        for expert in range(count):
            for slot, pair in enumerate([pair for pair in here if expert_of[pair] == expert][:capacity]):
                slots[expert * capacity + slot] = pair
                row_idx[pair] = expert * capacity + slot
    else:
        most = rows * k if options["active_num"] <= 0 else min(options["active_num"], rows * k)
        slots = (here + [-1] * (rows * k))[:most]
        row_idx[here] = np.arange(len(here))
        if options["row_idx_type"] == 1:
            row_idx = np.asarray(order, np.int32)
    expanded, scales = _rows(x, slots, expert_of, start, k, options)
    if options["drop_pad_mode"]:
        expanded = expanded.reshape(count, capacity, width)
    return expanded, row_idx, counts, scales


def _rows(x: torch.Tensor, slots: list[int], expert_of: list[int], start: int, k: int, options: dict[str, Any]) -> Any:
    mode, scale, offset = options["quant_mode"], options["scale"], options["offset"]
    expanded = np.zeros((len(slots), x.shape[1]), np.float32 if mode == -1 else np.int8)
    scales = np.zeros(len(slots), np.float32)
    numbers = floats(x)
    for slot, pair in enumerate(slots):
        if pair < 0:
            continue
        row = numbers[pair // k]
        if mode == -1:
            expanded[slot] = row
            if scale is not None and (options.get("on_950") or not options["drop_pad_mode"]):
                scales[slot] = floats(scale)[pair // k]
        elif mode == 0:
            expanded[slot] = integers(row * floats(scale)[0] + floats(offset)[0], "int8")
        else:
            if scale is not None:
                row = row * floats(scale)[0 if scale.shape[0] == 1 else expert_of[pair] - start]
            with np.errstate(all="ignore"):
                scales[slot] = np.max(np.abs(row)) / np.float32(127)
                expanded[slot] = integers(row / scales[slot], "int8")
    return expanded, scales


STATEMENTS = {"npu_moe_init_routing_v2": Statement(statement, right_calls())}


@st.composite
def calls_950(draw: Draw) -> tuple[tuple[Any, ...], dict[str, Any]]:
    (x, expert_idx), options = draw(right_calls().filter(lambda call: call[1]["quant_mode"] == -1))
    return (x, expert_idx), {**options, "active_num": -1, "expert_tokens_num_flag": True}


STATEMENTS_950 = {
    "npu_moe_init_routing_v2": Statement(
        lambda *args, **options: statement(*args, **options, on_950=True), calls_950(), sample=25
    )
}
