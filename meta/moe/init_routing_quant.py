"""npu_moe_init_routing_quant: what may be passed, and what comes back.

x is (tokens, H) and expert_idx the K experts of each token. With static quantisation (quant_mode 0), scale and offset
are one number each. With dynamic quantisation (1), scale is absent or holds smooth scales: one row of H for all
experts, or one for each.

The results are the expanded rows, the index, the token count of each expert (expert_tokens_num_mode 1: cumulative, 2:
counts; without drop_pad_mode), the same before dropping (with it, if requested), and the scale of each row (quant_mode
1). Results that are not requested are None, as in torch_npu.
"""

from __future__ import annotations

import torch
from graph_quant.meta.moe.init_routing_v2 import check_capacity, check_experts, check_scale
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import FLOATS, Rules, Size
from graph_quant.reference.moe.init_routing_quant import COUNT, CUMULATIVE, NO_COUNTS
from graph_quant.reference.moe.init_routing_quant import init_routing_quant as reference
from graph_quant.reference.moe.quantise import DYNAMIC, STATIC
from torch import Tensor


@operator("npu_moe_init_routing_quant", reference=reference)
def init_routing_quant(
    rules: Rules,
    x: Tensor,
    expert_idx: Tensor,
    scale: Tensor | None,
    offset: Tensor | None,
    active_num: int,
    expert_capacity: int,
    expert_num: int,
    drop_pad_mode: int,
    expert_tokens_num_mode: int,
    expert_tokens_before_capacity_flag: bool,
    quant_mode: int,
) -> Plan:
    """The plan of a call that the device allows; any other call is refused."""
    rules.dtype("x", x, FLOATS)
    rules.rank("x", x, 2)
    rules.not_empty("x", x)
    check_experts(rules, x, expert_idx)
    rules.one_of("quant_mode", quant_mode, (STATIC, DYNAMIC))
    rules.one_of("drop_pad_mode", drop_pad_mode, (0, 1))
    rules.one_of("expert_tokens_num_mode", expert_tokens_num_mode, (NO_COUNTS, CUMULATIVE, COUNT))
    rules.at_least("expert_num", expert_num, 1 if drop_pad_mode or expert_tokens_num_mode else 0)
    rules.at_least("active_num", active_num, 0)
    check_scale(rules, x, scale, offset, quant_mode, expert_num, "expert_num")
    pairs = x.size(0) * expert_idx.size(1)
    counts = Result((expert_num,), torch.int32)
    kept: Size = pairs if active_num == 0 else torch.sym_min(active_num, pairs)
    shape: tuple[Size, ...] = (kept, x.size(1))
    if drop_pad_mode:
        check_capacity(rules, x, expert_capacity)
        kept, shape = expert_num * expert_capacity, (expert_num, expert_capacity, x.size(1))
    return Plan(
        (
            Result(shape, torch.int8),
            Result((pairs,), torch.int32),
            counts if expert_tokens_num_mode and not drop_pad_mode else None,
            counts if expert_tokens_before_capacity_flag and drop_pad_mode else None,
            Result((kept,), torch.float32) if quant_mode == DYNAMIC else None,
        )
    )
