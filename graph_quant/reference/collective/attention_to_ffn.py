"""npu_attention_to_ffn: tokens of an attention rank into the windows of the ranks of their experts.

A row of expert_rank_table is how many ranks have the expert, then each one's number and what it calls the expert; the
session takes the one at its own number, counted around. Behind the experts of its choice, a token goes to the shared
ones. In the window of a rank the table of numbers has for each session and micro batch: 1 when all is there, the
layer, and for each token and expert what the rank calls the expert. Dynamic quantisation is that of
npu_moe_distribute_dispatch; the scale lies behind the int8 values, from the next 32 bytes on. What else the device
writes into the 128 bytes behind the values is what its buffer happened to hold, and is left alone here.

With active_mask the device also marks the tokens left out in a buffer of HCCL's own, which no call can read where
windows are registered.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from graph_quant.ge import kernel
from graph_quant.reference.collective.moe_distribute_dispatch import quantise_rows
from graph_quant.reference.collective.window_tables import check_index_range, map_window, resolve_world, wait_until_free
from graph_quant.reference.opaque import opaque
from graph_quant.refusals import Refusal
from torch import Tensor

_OP = "npu_attention_to_ffn"


def _nothing(*_: object) -> None:
    """What the operator gives back."""


@opaque(_nothing, ordered=True)
def send_to_ffn(
    x: Tensor,
    places: Sequence[Tensor],
    expert_ids: Tensor,
    expert_rank_table: Tensor,
    scales: Tensor | None,
    active_mask: Tensor | None,
    group: str,
    info_shape: Sequence[int],
    data_shape: Sequence[int],
    numbers: Sequence[int],
) -> None:
    """Writes the tokens; ``places`` are session, micro batch and layer, ``numbers`` the other attributes."""
    world_size, experts, quant_mode, sync_flag, first_ffn = numbers
    ranks = resolve_world(_OP, group, world_size)
    session, batch, layer = (int(place) for place in places)
    check_index_range(_OP, "session_id", places[0], data_shape[0])
    check_index_range(_OP, "micro_batch_id", places[1], data_shape[1])
    check_index_range(_OP, "layer_id", places[2], expert_rank_table.size(0))
    check_index_range(_OP, "expert_ids", expert_ids, experts)
    shared = expert_rank_table.size(1) - experts
    tokens = _active(active_mask, x.size(1))
    ids = torch.cat([expert_ids[0], torch.arange(experts, experts + shared).expand(x.size(1), -1)], 1)[:tokens]
    targets, local = _placed(expert_rank_table[layer], ids.to(torch.int64), session)
    last_ffn = first_ffn + world_size - data_shape[0]
    if bool(((targets < first_ffn) | (targets >= last_ffn)).any()):
        raise Refusal(
            f"{_OP}: expert_rank_table must name the FFN ranks from {first_ffn} to {last_ffn - 1}, "
            f"got {sorted(set(targets.flatten().tolist()))}"
        )
    dtype = torch.int8 if quant_mode else x.dtype
    chosen = [int(rank) for rank in targets.unique()]
    windows = {
        rank: map_window(_OP, ranks, rank, info_shape, data_shape, dtype)
        for rank in (chosen if sync_flag else range(first_ffn, last_ffn))
    }
    for rank in chosen:
        wait_until_free(_OP, rank, windows[rank].info[session, batch, 0], ranks.limit)
        token, place = (targets == rank).nonzero(as_tuple=True)
        rows = x[0][token]
        data = windows[rank].data[session, batch]
        if quant_mode:
            values, row_scales = quantise_rows(rows, None if scales is None else scales[0][ids[token, place]])
            data[token, place, : x.size(2)] = values
            start = -(-x.size(2) // 32) * 32
            data[token, place, start : start + 4] = row_scales.view(torch.int8).view(-1, 4)
        else:
            data[token, place, : x.size(2)] = rows
        windows[rank].info[session, batch, 2 + token * ids.size(1) + place] = local[token, place].to(torch.int32)
    for window in windows.values():
        window.info[session, batch, 1] = layer
        window.info[session, batch, 0] = 1


def _active(mask: Tensor | None, tokens: int) -> int:
    """How many tokens go: the mask has its truths first."""
    if mask is None:
        return tokens
    if bool((mask[0, 1:] & ~mask[0, :-1]).any()):
        raise Refusal(f"{_OP}: active_mask must have every True before the first False, got {mask[0].tolist()}")
    return int(mask.sum())


def _placed(table: Tensor, ids: Tensor, session: int) -> tuple[Tensor, Tensor]:
    """The rank of each token and expert, and what that rank calls the expert."""
    rows = table.to(torch.int64)[ids]
    copies = rows[..., 0]
    most = (table.size(1) - 1) // 2
    if bool(((copies < 1) | (copies > most)).any()):
        wrong = int(copies[(copies < 1) | (copies > most)][0])
        raise Refusal(f"{_OP}: expert_rank_table must count from 1 to {most} ranks of an expert, got {wrong}")
    place = (session % copies) * 2 + 1
    return tuple(rows.gather(-1, (place + at).unsqueeze(-1)).squeeze(-1) for at in (0, 1))  # type: ignore[return-value]


@kernel("AttentionToFFN", flops=0)
def attention_to_ffn(
    x: Tensor,
    session_id: Tensor,
    micro_batch_id: Tensor,
    layer_id: Tensor,
    expert_ids: Tensor,
    expert_rank_table: Tensor,
    scales: Tensor | None = None,
    active_mask: Tensor | None = None,
    *,
    group: str,
    world_size: int,
    ffn_token_info_table_shape: Sequence[int],
    ffn_token_data_shape: Sequence[int],
    attn_token_info_table_shape: Sequence[int],  # noqa: ARG001  (follows from the others)
    moe_expert_num: int,
    quant_mode: int = 0,
    sync_flag: int = 0,
    ffn_start_rank_id: int = 0,
) -> tuple[()]:
    """Writes the tokens into the windows of the FFN ranks."""
    send_to_ffn(
        x,
        [session_id, micro_batch_id, layer_id],
        expert_ids,
        expert_rank_table,
        scales,
        active_mask,
        group,
        ffn_token_info_table_shape,
        ffn_token_data_shape,
        [world_size, moe_expert_num, quant_mode, sync_flag, ffn_start_rank_id],
    )
    return ()
