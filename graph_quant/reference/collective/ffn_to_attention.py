"""npu_ffn_to_attention: what experts made of tokens, into the windows of the attention ranks that these are from.

The first actual_token_num rows go, each to the place of its micro batch, token and which of the token's experts it is
from; the table of numbers has a 1 for each that is there. A rank's number is its session, or what attn_rank_table says.
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


def _nothing(*_: object) -> None:
    """What the operator gives back."""


@opaque(_nothing, ordered=True)
def send_to_attention(
    x: Tensor,
    places: Sequence[Tensor],
    actual_token_num: Tensor,
    attn_rank_table: Tensor | None,
    group: str,
    world_size: int,
    info_shape: Sequence[int],
    data_shape: Sequence[int],
) -> None:
    """Writes the rows; ``places`` are sessions, micro batches, tokens and which of a token's experts."""
    ranks = resolve_world(_OP, group, world_size)
    check_index_range(_OP, "actual_token_num", actual_token_num, x.size(0) + 1)
    rows = int(actual_token_num)
    sessions, *inside = (place[:rows].to(torch.int64) for place in places)
    for name, place, size in zip(("micro_batch_ids", "token_ids", "expert_offsets"), inside, info_shape, strict=True):
        check_index_range(_OP, name, place, size)
    if attn_rank_table is not None:
        check_index_range(_OP, "session_ids", sessions, attn_rank_table.size(0))
        sessions = attn_rank_table.to(torch.int64)[sessions]
    check_index_range(_OP, "session_ids" if attn_rank_table is None else "attn_rank_table", sessions, world_size)
    if torch.unique(torch.stack([sessions, *inside]), dim=1).size(1) < rows:
        raise Refusal(f"{_OP}: every row must have a place of its own, got two rows for one place")
    windows = {
        rank: map_window(_OP, ranks, rank, info_shape, data_shape, x.dtype) for rank in sessions.unique().tolist()
    }
    for rank, window in windows.items():
        (here,) = (sessions == rank).nonzero(as_tuple=True)
        batch, token, expert = (place[here] for place in inside)
        window.data[batch, token, expert, : x.size(1)] = x[here]
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
