"""npu_ffn_to_attention: writes the experts' results into the windows of the attention ranks that sent the tokens.

The first actual_token_num rows are sent. A row is written at the index of its micro batch, token and expert offset, and
the info table gets a 1 there. The target rank is the session id, or its entry in attn_rank_table.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from graph_quant.ge import kernel
from graph_quant.reference.collective.window_tables import check_index_range, map_window, resolve_world
from graph_quant.reference.opaque import opaque
from graph_quant.refusals import Refusal
from torch import Tensor

_OP = "npu_ffn_to_attention"


def _infer(*_: object) -> None:
    """The operator returns nothing."""


@opaque(_infer, ordered=True)
def send_to_attention(
    x: Tensor,
    ids: Sequence[Tensor],
    actual_token_num: Tensor,
    attn_rank_table: Tensor | None,
    group: str,
    world_size: int,
    info_shape: Sequence[int],
    data_shape: Sequence[int],
) -> None:
    """Writes the rows; ``ids`` are the ids of sessions, micro batches and tokens, and the expert offsets."""
    ranks = resolve_world(_OP, group, world_size)
    check_index_range(_OP, "actual_token_num", actual_token_num, x.size(0) + 1)
    rows = int(actual_token_num)
    sessions, *indices = (tensor[:rows].to(torch.int64) for tensor in ids)
    for name, index, size in zip(("micro_batch_ids", "token_ids", "expert_offsets"), indices, info_shape, strict=True):
        check_index_range(_OP, name, index, size)
    if attn_rank_table is not None:
        check_index_range(_OP, "session_ids", sessions, attn_rank_table.size(0))
        sessions = attn_rank_table.to(torch.int64)[sessions]
    check_index_range(_OP, "session_ids" if attn_rank_table is None else "attn_rank_table", sessions, world_size)
    if torch.unique(torch.stack([sessions, *indices]), dim=1).size(1) < rows:
        raise Refusal(f"{_OP}: every row must have an index of its own, got two rows for one index")
    windows = {
        rank: map_window(_OP, ranks, rank, info_shape, data_shape, x.dtype) for rank in sessions.unique().tolist()
    }
    for rank, window in windows.items():
        (selected,) = (sessions == rank).nonzero(as_tuple=True)
        batch, token, expert = (index[selected] for index in indices)
        window.data[batch, token, expert, : x.size(1)] = x[selected]
        window.info[batch, token, expert] = 1


@kernel("FFNToAttention", flops=0)
def ffn_to_attention(
    x: Tensor,
    session_ids: Tensor,
    micro_batch_ids: Tensor,
    token_ids: Tensor,
    expert_offsets: Tensor,
    actual_token_num: Tensor,
    attn_rank_table: Tensor | None = None,
    *,
    group: str,
    world_size: int,
    token_info_table_shape: Sequence[int],
    token_data_shape: Sequence[int],
) -> tuple[()]:
    """Writes the rows into the windows of the attention ranks."""
    send_to_attention(
        x,
        [session_ids, micro_batch_ids, token_ids, expert_offsets],
        actual_token_num,
        attn_rank_table,
        group,
        world_size,
        token_info_table_shape,
        token_data_shape,
    )
    return ()
