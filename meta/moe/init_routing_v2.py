"""npu_moe_init_routing_v2: what may be passed, and what comes back.

x is (tokens, H) and expert_idx the K experts of each token, both with at least one column. The device holds the experts
from active_expert_range[0] up to active_expert_range[1]; an empty range means all expert_num of them.

Without quantisation (quant_mode -1), scale has one number for each token, which is copied along. With static
quantisation (0), scale and offset are one number each. With dynamic quantisation (1), scale is absent or holds smooth
scales: one row of H for all experts, or one for each expert of the range. Without tokens the device does not read
scale.

The results are the expanded rows, the index, the token count of each expert and the scale of each row. The documents
do not state the shape of the last two if they are not requested; as in torch_npu, it is the same.

On Ascend 950 expert_tokens_num_flag must be True, active_num -1 or all pairs, and expert_num at most 5120 for pairs of
expert and count. Its quantisation is not described.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from graph_quant.chip import A2_A3_950, ASCEND_950
from graph_quant.destination import SCALAR_TYPES
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import FLOATS, TILING_ERROR, Rules, Size, guard_or_false, sym_or
from graph_quant.reference.moe.init_routing_v2 import COUNT, CUMULATIVE, GATHER, KEY_VALUE, SCATTER
from graph_quant.reference.moe.init_routing_v2 import init_routing_v2 as reference
from graph_quant.reference.moe.quantise import DYNAMIC, NOT_QUANTISED, STATIC
from torch import Tensor

# The tiling bounds where the active range ends; the experts themselves are bounded by the shape inference alone.
MOST_EXPERTS, LAST_END = 10240, {CUMULATIVE: 10240, COUNT: 10240, KEY_VALUE: 5120}


@operator("npu_moe_init_routing_v2", reference=reference, chips=A2_A3_950)
def init_routing_v2(
    rules: Rules,
    x: Tensor,
    expert_idx: Tensor,
    scale: Tensor | None,
    offset: Tensor | None,
    active_num: int,
    expert_capacity: int,
    expert_num: int,
    drop_pad_mode: int,
    expert_tokens_num_type: int,
    expert_tokens_num_flag: bool,
    quant_mode: int,
    active_expert_range: Sequence[int],
    row_idx_type: int,
    x_dtype: int | None,
) -> Plan:
    """The plan of a call that the documents allow; any other call is refused."""
    if rules.chip is ASCEND_950:
        _check_950(rules, x, expert_idx, active_num, expert_num, drop_pad_mode, expert_tokens_num_type)
        rules.require(expert_tokens_num_flag, lambda: "expert_tokens_num_flag must be True on Ascend 950, got False")
        rules.require(
            quant_mode == NOT_QUANTISED,
            lambda: f"quant_mode must be -1, others are not described for {rules.chip.name} yet, got {quant_mode}",
        )
    rules.one_of("quant_mode", quant_mode, (NOT_QUANTISED, STATIC, DYNAMIC), why=" on A2 and A3")
    _check_x_dtype(rules, x, quant_mode, x_dtype)
    _check_tokens(rules, x, expert_idx, quant_mode)
    rules.one_of("expert_tokens_num_type", expert_tokens_num_type, (CUMULATIVE, COUNT, KEY_VALUE))
    rules.one_of("row_idx_type", row_idx_type, (GATHER, SCATTER))
    rules.one_of("drop_pad_mode", drop_pad_mode, (0, 1))
    start, end = _check_range(rules, active_expert_range, expert_num, LAST_END[expert_tokens_num_type])
    if not guard_or_false(x.size(0) == 0):
        check_scale(rules, x, scale, offset, quant_mode, end - start)
    counts = Result((expert_num, 2) if expert_tokens_num_type == KEY_VALUE else (end - start,), torch.int64)
    pairs = x.size(0) * expert_idx.size(1)
    row_idx = Result((pairs,), torch.int32)
    stored = x.dtype if quant_mode == NOT_QUANTISED else torch.int8
    if drop_pad_mode:
        _check_padded(rules, x, expert_capacity, row_idx_type, start, end, expert_num)
        rules.require(
            not expert_tokens_num_flag or expert_tokens_num_type == COUNT,
            lambda: f"expert_tokens_num_type must be 1 with drop_pad_mode 1, got {expert_tokens_num_type}",
        )
        rows = Result((expert_num, expert_capacity, x.size(1)), stored)
        return Plan((rows, row_idx, counts, Result((expert_num * expert_capacity,), torch.float32)))
    rules.at_least("active_num", active_num, -1)
    kept: Size = pairs if active_num <= 0 else torch.sym_min(active_num, pairs)
    return Plan((Result((kept, x.size(1)), stored), row_idx, counts, Result((kept,), torch.float32)))


def _check_950(
    rules: Rules, x: Tensor, expert_idx: Tensor, active_num: int, expert_num: int, drop_pad_mode: int, kind: int
) -> None:
    """Check what only the tiling of Ascend 950 requires."""
    rules.require(
        kind != KEY_VALUE or expert_num <= LAST_END[KEY_VALUE],
        lambda: f"expert_num must be at most 5120 with expert_tokens_num_type 2, got {expert_num}",
        TILING_ERROR,
    )
    if active_num != -1 and not drop_pad_mode and x.dim() == expert_idx.dim() == 2:
        pairs = x.size(0) * expert_idx.size(1)
        rules.require(
            sym_or(pairs == active_num, pairs == 0),
            lambda: f"active_num must be -1 or the number of pairs, {pairs}, on Ascend 950, got {active_num}",
            TILING_ERROR,
        )


def _check_x_dtype(rules: Rules, x: Tensor, quant_mode: int, x_dtype: int | None) -> None:
    """Check the dtype that x is to be read as: its own, or any of the operator's where it is not read."""
    if x_dtype is None:
        return
    dtypes = (x.dtype,) if quant_mode == NOT_QUANTISED else (*FLOATS, torch.int8)
    numbers = [number for number, dtype in SCALAR_TYPES.items() if dtype in dtypes]
    rules.require(
        x_dtype in numbers,
        lambda: (
            f"x_dtype must be {' or '.join(map(str, dtypes))} on A2 and A3, got {SCALAR_TYPES.get(x_dtype, x_dtype)}"
        ),
    )


def _check_tokens(rules: Rules, x: Tensor, expert_idx: Tensor, quant_mode: int) -> None:
    floats = (*FLOATS, torch.int8) if quant_mode == NOT_QUANTISED else FLOATS
    rules.dtype(
        "x", x, floats, why="" if quant_mode == NOT_QUANTISED else f" to be quantised (quant_mode {quant_mode})"
    )
    rules.rank("x", x, 2)
    rules.at_least("x.size(1)", x.size(1), 1)
    check_experts(rules, x, expert_idx)


def check_experts(rules: Rules, x: Tensor, expert_idx: Tensor) -> None:
    """Check the experts of each token, which are at least one."""
    rules.dtype("expert_idx", expert_idx, (torch.int32,))
    rules.rank("expert_idx", expert_idx, 2)
    rules.equal("expert_idx.size(0)", expert_idx.size(0), "x.size(0)", x.size(0))
    rules.at_least("expert_idx.size(1)", expert_idx.size(1), 1)


def _check_range(rules: Rules, active_expert_range: Sequence[int], expert_num: int, last: int) -> tuple[int, int]:
    rules.at_least("expert_num", expert_num, 1)
    rules.require(expert_num <= MOST_EXPERTS, lambda: f"expert_num must be at most {MOST_EXPERTS}, got {expert_num}")
    rules.require(
        len(active_expert_range) in (0, 2),
        lambda: f"active_expert_range must hold where it starts and ends, or nothing, got {list(active_expert_range)}",
    )
    start, end = active_expert_range or (0, expert_num)
    rules.require(
        0 <= start < end <= expert_num,
        lambda: f"active_expert_range must rise within [0, {expert_num}], the experts, got {list(active_expert_range)}",
    )
    ending = "active_expert_range must end at" if active_expert_range else "expert_num must be"
    rules.require(end <= last, lambda: f"{ending} {last} at most with expert_tokens_num_type 2, got {end}")
    return start, end


def check_scale(
    rules: Rules,
    x: Tensor,
    scale: Tensor | None,
    offset: Tensor | None,
    quant_mode: int,
    experts: int,
    experts_name: str = "the experts of active_expert_range",
) -> None:
    """Check scale and offset for a quantisation mode."""
    if quant_mode == STATIC:
        for name, number in (("scale", scale), ("offset", offset)):
            if number is None:
                rules.refuse(f"{name} must not be None with quant_mode 0")
            rules.dtype(name, number, (torch.float32,))
            rules.rank(name, number, 1)
            rules.equal(f"{name}.size(0)", number.size(0), "the numbers it needs", 1)
        return
    rules.require(offset is None, lambda: f"offset is for quant_mode 0, leave it None with {quant_mode}")
    if scale is None:
        return
    rules.dtype("scale", scale, (torch.float32,))
    if quant_mode == NOT_QUANTISED:
        rules.rank("scale", scale, 1)
        rules.equal("scale.size(0)", scale.size(0), "x.size(0)", x.size(0))
    else:
        rules.rank("scale", scale, 2)
        rules.one_or("scale.size(0)", scale.size(0), experts_name, experts)
        rules.equal("scale.size(1)", scale.size(1), "x.size(1)", x.size(1))


def check_capacity(rules: Rules, x: Tensor, capacity: int) -> None:
    """Check the rows of each expert, which are at most the tokens."""
    rules.at_least("expert_capacity", capacity, 1)
    rules.require(
        capacity <= x.size(0),
        lambda: f"expert_capacity must be no more than x.size(0), got {capacity} and {x.size(0)}",
    )


def _check_padded(
    rules: Rules, x: Tensor, capacity: int, row_idx_type: int, start: int, end: int, expert_num: int
) -> None:
    check_capacity(rules, x, capacity)
    rules.require(row_idx_type == GATHER, lambda: f"row_idx_type must be 0 with drop_pad_mode 1, got {row_idx_type}")
    rules.require(
        start == 0 and end == expert_num,
        lambda: f"active_expert_range must be [0, {expert_num}] with drop_pad_mode 1, got {[start, end]}",
    )
