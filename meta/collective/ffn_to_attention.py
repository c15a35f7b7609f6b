"""npu_ffn_to_attention: argument rules.

session_ids, micro_batch_ids, token_ids and expert_offsets (Y,) are the indices of the rows of x (Y, H);
token_info_table_shape and token_data_shape are the shapes of the tables in the windows of the attention ranks. Only A3
has a kernel.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from graph_quant.chip import is_a3
from graph_quant.meta.collective.attention_to_ffn import check_group, check_tokens_of_batch, check_width
from graph_quant.meta.collective.matmul_rules import HALVES
from graph_quant.meta.operator import Plan, operator
from graph_quant.meta.rules import Rules
from graph_quant.reference.collective.ffn_to_attention import ffn_to_attention as compute
from torch import Tensor


@operator("npu_ffn_to_attention", reference=compute, on_any_device=("attn_rank_table",))
def ffn_to_attention(
    rules: Rules,
    x: Tensor,
    session_ids: Tensor,
    micro_batch_ids: Tensor,
    token_ids: Tensor,
    expert_offsets: Tensor,
    actual_token_num: Tensor,
    group: str,
    world_size: int,
    token_info_table_shape: Sequence[int],
    token_data_shape: Sequence[int],
    attn_rank_table: Tensor | None,
) -> Plan:
    """Check a call against the documented rules and return its plan."""
    if not is_a3():
        rules.refuse("it must run on A3, which alone has a kernel for it, got Ascend A2")
    check_group(rules, group, world_size)
    rules.dtype("x", x, HALVES)
    rules.rank("x", x, 2)
    check_width(rules, "x.size(1)", x.size(1))
    indices = {
        "session_ids": session_ids,
        "micro_batch_ids": micro_batch_ids,
        "token_ids": token_ids,
        "expert_offsets": expert_offsets,
    }
    for name, index in indices.items():
        rules.dtype(name, index, (torch.int32,))
        rules.rank(name, index, 1)
        rules.equal(f"{name}.size(0)", index.size(0), "x.size(0)", x.size(0))
    rules.dtype("actual_token_num", actual_token_num, (torch.int64,))
    rules.rank("actual_token_num", actual_token_num, 1)
    rules.equal("actual_token_num.size(0)", actual_token_num.size(0), "the only number of counts", 1)
    if attn_rank_table is not None:
        if rules.is_eager:  # a graph moves its inputs to the device
            rules.one_device({"x": x, "attn_rank_table": attn_rank_table})
        rules.dtype("attn_rank_table", attn_rank_table, (torch.int32,))
        rules.rank("attn_rank_table", attn_rank_table, 1)
        sessions = attn_rank_table.size(0)
        rules.require(
            sessions < world_size,
            lambda: f"attn_rank_table.size(0) must be at most {world_size - 1}, got {sessions}",
        )
    info, data = token_info_table_shape, token_data_shape
    rules.require(len(info) == 3, lambda: f"token_info_table_shape must have 3 sizes, got {list(info)}")
    rules.require(len(data) == 4, lambda: f"token_data_shape must have 4 sizes, got {list(data)}")
    for dim in range(3):
        rules.equal(f"token_info_table_shape[{dim}]", info[dim], f"token_data_shape[{dim}]", data[dim])
    rules.equal("token_info_table_shape[0]", info[0], "the only number of micro batches", 1)
    check_tokens_of_batch(rules, "token_data_shape[1]", data[1])
    rules.at_least("token_data_shape[2]", data[2], 1)
    check_width(rules, "token_data_shape[3]", data[3], 128)
    rules.at_least("token_data_shape[3]", data[3], x.size(1))
    return Plan(())
