"""Calls of npu_grouped_matmul with data, for its statement: every form, kind of group list and number of tensors."""

from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from support.call_strategies import Draw

Call = tuple[tuple[Any, ...], dict[str, Any]]
HALVES = (torch.float16, torch.bfloat16)


class Data:
    """Tensors from one seed. Floats are eighths below four, so that float32 sums of products are exact."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))

    def eighths(self, dtype: torch.dtype, *shape: int) -> torch.Tensor:
        return torch.from_numpy(self.random.integers(-32, 33, shape) / 8).to(dtype)

    def halves(self, dtype: torch.dtype, *shape: int) -> torch.Tensor:
        return torch.from_numpy(self.random.integers(-9, 10, shape) / 2).to(dtype)

    def powers(self, dtype: torch.dtype, *shape: int) -> torch.Tensor:
        return torch.from_numpy(2.0 ** self.random.integers(-3, 1, shape)).to(dtype)

    def floats(self, dtype: torch.dtype, *shape: int) -> torch.Tensor:
        return torch.from_numpy(self.random.normal(0, 1, shape) * 10.0 ** self.random.integers(-5, 2)).to(dtype)

    def int8(self, *shape: int) -> torch.Tensor:
        return torch.from_numpy(self.random.integers(-128, 128, shape).astype(np.int8))

    def int32(self, *shape: int, low: int = -(2**31), high: int = 2**31) -> torch.Tensor:
        return torch.from_numpy(self.random.integers(low, high, shape).astype(np.int32))

    def params(self, *shape: int) -> torch.Tensor:
        """Packed parameters: any float32 scale, an offset and the bit that is always set."""
        scale = self.floats(torch.float32, *shape).view(torch.int32).long() & 0xFFFFFFFF
        return scale | (torch.from_numpy(self.random.integers(0, 512, shape)) << 37) | (1 << 46)

    def one_of(self, *values: Any) -> Any:
        return self.draw(st.sampled_from(values))

    def groups(self, count: int, rows: int, kind: int) -> torch.Tensor:
        """A group list of ``kind``, now and then of fewer rows than there are."""
        used = self.one_of(rows, rows, max(rows - 2, 0), 0)
        ends = np.sort(self.random.integers(0, used + 1, count)) if used else np.zeros(count, np.int64)
        if self.one_of(True, False) and count:
            ends[-1] = used
        counts = np.diff(ends, prepend=0)
        if kind == 2:
            order = np.argsort(counts == 0, kind="stable")
            return torch.from_numpy(np.stack([order, counts[order]], 1))
        return torch.from_numpy(ends if kind == 0 else counts)


def _rows(data: Data, extra: dict[str, Any], kinds: tuple[int, ...], rows: int, experts: int) -> dict[str, Any]:
    kind = data.one_of(*kinds)
    groups = data.groups(experts, rows, kind)
    return {"split_item": data.one_of(2, 3), "group_type": 0, "group_list_type": kind, "group_list": groups, **extra}


def floating(data: Data, rows: int, experts: int, k: int, n: int) -> Call:
    dtype = data.one_of(torch.float32, *HALVES)
    bias = torch.float16 if dtype == torch.float16 else torch.float32
    has_bias, form = data.one_of(True, False), data.one_of("rows", "separate weights", "separate", "pairs", "columns")
    experts = max(experts, 2) if form.startswith("separate") else experts
    if form == "columns":
        rows = max(rows, 1)
        options = {"split_item": 3, "group_type": 2, "group_list": data.groups(experts, k, 0)}
        return ([data.eighths(dtype, k, rows).t()], [data.eighths(dtype, k, n)]), options
    weight = data.eighths(dtype, experts, k, n)
    weight = data.eighths(dtype, experts, n, k).mT if data.one_of(True, False) and k > 1 and n > 1 else weight
    biases = data.eighths(bias, experts, n)
    if form == "rows":
        return ([data.eighths(dtype, rows, k)], [weight]), _rows(
            data, {"bias": [biases] if has_bias else None}, (0, 1), rows, experts
        )
    extra = {"bias": list(biases) if has_bias else None}
    if form == "separate weights":
        return ([data.eighths(dtype, rows, k)], list(weight)), _rows(data, extra, (0, 1), rows, experts)
    x = [data.eighths(dtype, int(rows_of_x), k) for rows_of_x in data.random.integers(0, 4, experts)]
    options = (
        {"split_item": 2, "group_type": 0}
        if form == "separate"
        else {"split_item": data.one_of(0, 1), "group_type": -1}
    )
    return (x, list(weight)), {**options, **extra}


def restored(data: Data, rows: int, experts: int, k: int, n: int) -> Call:
    dtype, int4 = data.one_of(*HALVES), data.one_of(True, False)
    n = n * 8 if int4 else n
    along_k = int4 and data.one_of(True, False)
    k = k * 8 if along_k else k
    k_groups = data.one_of(*[count for count in (1, 2, 4) if k % count == 0]) if int4 and not along_k else 1
    shape = (experts, n) if k_groups == 1 else (experts, k_groups, n)
    weight = data.int8(experts, k, n)
    if int4:
        weight = data.int32(experts, n, k // 8).mT if along_k else data.int32(experts, k, n // 8)
    extra: dict[str, Any] = {"antiquant_scale": [data.powers(dtype, *shape)]}
    if not int4 or data.one_of(True, False):
        extra["antiquant_offset"] = [data.halves(dtype, *shape)]
    if data.one_of(True, False):
        extra["bias"] = [data.eighths(torch.float16 if dtype == torch.float16 else torch.float32, experts, n)]
    return ([data.eighths(dtype, rows, k)], [weight]), _rows(data, extra, (0, 1), rows, experts)


def int8(data: Data, rows: int, experts: int, k: int, n: int) -> Call:
    out = data.one_of(torch.int8, torch.int32, *HALVES)
    floats = out in HALVES
    extra: dict[str, Any] = {"output_dtype": out}
    bias = data.int32(experts, n, low=-9999, high=9999)
    if out == torch.int8:
        extra["scale"] = [data.params(experts, n)]
    elif floats:
        extra["scale"] = [data.floats(torch.bfloat16 if out == torch.bfloat16 else torch.float32, experts, n)]
        extra["act_type"] = data.one_of(0, 0, 1, 2, 4, 5)
        if data.one_of(True, False):
            extra["per_token_scale"] = [data.floats(torch.float32, rows)]
            bias = data.one_of(bias, data.floats(torch.bfloat16, experts, n))
    if data.one_of(True, False):
        extra["bias"] = [bias]
    return ([data.int8(rows, k)], [data.int8(experts, k, n)]), _rows(data, extra, (0, 1, 2), rows, experts)


def a8w4(data: Data, rows: int, experts: int, k: int, n: int) -> Call:
    out, k, n = data.one_of(*HALVES), 64, n * 8
    asymmetric = out == torch.float16 and data.one_of(True, False)
    k_groups = 1 if asymmetric else data.one_of(1, 2, 4)
    extra = {
        "output_dtype": out,
        "bias": [data.floats(torch.float32, experts, n)],
        "scale": [data.params(experts, k_groups, n)],
        "per_token_scale": [data.floats(torch.float32, rows, 1) if asymmetric else data.floats(torch.float32, rows)],
        "offset": [data.floats(torch.float32, experts, 1, n)] if asymmetric else None,
        "tuning_config": [data.one_of(0, rows)],
    }
    return ([data.int8(rows, k)], [data.int32(experts, k, n // 8)]), _rows(data, extra, (1,), rows, experts)


def a4w4(data: Data, rows: int, experts: int, k: int, n: int) -> Call:
    k, n = k * 8, n * 8
    shape = (experts, n) if data.one_of(True, False) else (experts, data.one_of(2, 4), n)
    extra = {
        "output_dtype": data.one_of(*HALVES),
        "scale": [data.params(*shape)],
        "per_token_scale": [data.floats(torch.float32, rows)] if data.one_of(True, False) else None,
    }
    return ([data.int32(rows, k // 8)], [data.int32(experts, k, n // 8)]), _rows(data, extra, (0, 1), rows, experts)


@st.composite
def calls(draw: Draw) -> Call:
    form = draw(st.sampled_from([floating, restored, int8, a8w4, a4w4]))
    sizes = [draw(st.sampled_from(choices)) for choices in ([0, 1, 2, 5, 9], [1, 2, 3, 5], [1, 2, 8, 24], [1, 2, 3, 8])]
    return form(Data(draw), *sizes)
