"""npu_attention_to_ffn: argument rules.

x (1, BS, H) are the tokens of a rank, expert_ids (1, BS, K) their experts; expert_rank_table (1, experts and shared
experts, M) lists the ranks of every expert. ffn_token_info_table_shape and ffn_token_data_shape are the shapes of the
tables in the windows of the FFN ranks. Only A3 has a kernel.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from graph_quant.chip import is_a3
from graph_quant.meta.collective.matmul_rules import HALVES
from graph_quant.meta.operator import Plan, operator
from graph_quant.meta.rules import Rules
from graph_quant.reference.collective.attention_to_ffn import attention_to_ffn as compute
from torch import Tensor


@operator("npu_attention_to_ffn", reference=compute)
def attention_to_ffn(
    rules: Rules,
    x: Tensor,
    session_id: Tensor,
    micro_batch_id: Tensor,
    layer_id: Tensor,
    expert_ids: Tensor,
    expert_rank_table: Tensor,
    group: str,
    world_size: int,
    ffn_token_info_table_shape: Sequence[int],
    ffn_token_data_shape: Sequence[int],
    attn_token_info_table_shape: Sequence[int],
    moe_expert_num: int,
    scales: Tensor | None,
    active_mask: Tensor | None,
    quant_mode: int,
    sync_flag: int,
    ffn_start_rank_id: int,
) -> Plan:
    """Check a call against the documented rules and return its plan."""
    if not is_a3():
        rules.refuse("it must run on A3, which alone has a kernel for it, got Ascend A2")
    check_group(rules, group, world_size)
    rules.require(1 <= moe_expert_num <= 1024, lambda: f"moe_expert_num must be from 1 to 1024, got {moe_expert_num}")
    rules.one_of("quant_mode", quant_mode, (0, 2))
    rules.one_of("sync_flag", sync_flag, (0, 1))
    rules.require(
        0 <= ffn_start_rank_id < world_size,
        lambda: f"ffn_start_rank_id must be from 0 to {world_size - 1}, got {ffn_start_rank_id}",
    )
    rules.dtype("x", x, HALVES)
    rules.rank("x", x, 3)
    rules.equal("x.size(0)", x.size(0), "the only number of micro batches", 1)
    check_tokens_of_batch(rules, "x.size(1)", x.size(1))
    check_width(rules, "x.size(2)", x.size(2))
    for name, index in (("session_id", session_id), ("micro_batch_id", micro_batch_id), ("layer_id", layer_id)):
        rules.dtype(name, index, (torch.int32,))
        rules.rank(name, index, 1)
        rules.equal(f"{name}.size(0)", index.size(0), "x.size(0)", x.size(0))
    _check_experts(rules, x, expert_ids, expert_rank_table, moe_expert_num)
    _check_scales(rules, x, expert_rank_table, scales, quant_mode)
    if active_mask is not None:
        rules.dtype("active_mask", active_mask, (torch.bool,))
        rules.rank("active_mask", active_mask, 2)
        for dim in range(2):
            rules.equal(f"active_mask.size({dim})", active_mask.size(dim), f"x.size({dim})", x.size(dim))
    slots = expert_ids.size(2) + expert_rank_table.size(1) - moe_expert_num
    width = x.size(2) + (128 if quant_mode else 0)
    info, data, back = ffn_token_info_table_shape, ffn_token_data_shape, attn_token_info_table_shape
    for name, shape, length in (("info_table", info, 3), ("data", data, 5)):
        rules.require(
            len(shape) == length,
            lambda: f"ffn_token_{name}_shape must have {length} sizes, got {list(shape)}",  # noqa: B023
        )
    workers = data[0]
    rules.require(
        0 < workers < world_size,
        lambda: f"ffn_token_data_shape must count from 1 to {world_size - 1} attention ranks, got {workers}",
    )
    ends = world_size - workers + ffn_start_rank_id
    rules.require(
        ends <= world_size,
        lambda: (
            f"ffn_start_rank_id must leave room for the {world_size - workers} FFN ranks"
            f" among {world_size}, got {ffn_start_rank_id}"
        ),
    )
    rules.equal("ffn_token_info_table_shape[0]", info[0], "ffn_token_data_shape[0]", workers)
    rules.equal("ffn_token_info_table_shape[1]", info[1], "ffn_token_data_shape[1]", data[1])
    rules.at_least("ffn_token_info_table_shape[1]", info[1], 1)
    rules.at_least("ffn_token_info_table_shape[2]", info[2], 2 + x.size(1) * slots)
    rules.equal("ffn_token_data_shape[2]", data[2], "x.size(1)", x.size(1))
    rules.equal("ffn_token_data_shape[3]", data[3], "the experts of a token, shared ones too,", slots)
    rules.at_least("ffn_token_data_shape[4]", data[4], width)
    rules.require(
        list(back) == [data[1], data[2], data[3]],
        lambda: (
            f"attn_token_info_table_shape must be {[data[1], data[2], data[3]]}, as ffn_token_data_shape says, "
            f"got {list(back)}"
        ),
    )
    return Plan(())


def check_group(rules: Rules, group: str, world_size: int) -> None:
    """Check the name and size of the process group."""
    rules.require(0 < len(group) < 128, lambda: f"group must have from 1 to 127 letters, got {len(group)}")
    rules.require(2 <= world_size <= 768, lambda: f"world_size must be from 2 to 768, got {world_size}")


def check_tokens_of_batch(rules: Rules, name: str, tokens: int) -> None:
    """Check the number of tokens in a micro batch."""
    rules.require(tokens >= 1, lambda: f"{name} must be at least 1, got {tokens}")
    rules.require(tokens <= 512, lambda: f"{name} must be at most 512, got {tokens}")


def check_width(rules: Rules, name: str, width: int, more: int = 0) -> None:
    """Check the width of a token, including ``more`` bytes for its scale."""
    rules.require(width >= 1024, lambda: f"{name} must be at least 1024, got {width}")
    rules.require(width <= 8192 + more, lambda: f"{name} must be at most {8192 + more}, got {width}")


def _check_experts(rules: Rules, x: Tensor, expert_ids: Tensor, table: Tensor, experts: int) -> None:
    rules.dtype("expert_ids", expert_ids, (torch.int32,))
    rules.rank("expert_ids", expert_ids, 3)
    for dim in range(2):
        rules.equal(f"expert_ids.size({dim})", expert_ids.size(dim), f"x.size({dim})", x.size(dim))
    chosen, most = expert_ids.size(2), min(16, experts)
    rules.at_least("expert_ids.size(2)", chosen, 1)
    rules.require(chosen <= most, lambda: f"expert_ids.size(2) must be at most {most}, got {chosen}")
    rules.dtype("expert_rank_table", table, (torch.int32,))
    rules.rank("expert_rank_table", table, 3)
    rules.equal("expert_rank_table.size(0)", table.size(0), "the only number of layers", 1)
    rules.at_least("expert_rank_table.size(1)", table.size(1), experts)
    rules.require(
        table.size(1) <= experts + 4,
        lambda: (
            f"expert_rank_table.size(1) must allow for at most 4 shared experts, {experts + 4}, got {table.size(1)}"
        ),
    )
    rules.at_least("expert_rank_table.size(2)", table.size(2), 3)


def _check_scales(rules: Rules, x: Tensor, table: Tensor, scales: Tensor | None, quant_mode: int) -> None:
    if scales is None:
        return
    rules.require(quant_mode == 2, lambda: f"scales must be None for quant_mode {quant_mode}, got one")
    rules.dtype("scales", scales, (torch.float32,))
    rules.rank("scales", scales, 3)
    for dim in range(2):
        rules.equal(f"scales.size({dim})", scales.size(dim), f"expert_rank_table.size({dim})", table.size(dim))
    rules.equal("scales.size(2)", scales.size(2), "x.size(2)", x.size(2))
