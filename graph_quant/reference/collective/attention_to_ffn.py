"""npu_attention_to_ffn: writes the tokens of an attention rank into the windows of their experts' ranks.

A row of expert_rank_table is the number of ranks that hold the expert, then for each of them its rank and the local id
of the expert; a session uses entry ``session % count``. A token goes to the experts it selected and then to the shared
ones. The info table of a window holds for every session and micro batch a ready flag (1), the layer, and the local
expert id of every token and expert. Dynamic quantisation is that of npu_moe_distribute_dispatch; the scale follows the
int8 values, aligned to 32 bytes. The device leaves the rest of the 128 bytes after the values uninitialised; here they
are not written.

With active_mask the device also marks inactive tokens in an internal buffer of HCCL, which no call can read.
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


def _infer(*_: object) -> None:
    """The operator returns nothing."""


@opaque(_infer, ordered=True)
def send_to_ffn(
    x: Tensor,
    ids: Sequence[Tensor],
    expert_ids: Tensor,
    expert_rank_table: Tensor,
    scales: Tensor | None,
    active_mask: Tensor | None,
    group: str,
    info_shape: Sequence[int],
    data_shape: Sequence[int],
    numbers: Sequence[int],
) -> None:
    """Writes the tokens; ``ids`` are session, micro batch and layer, ``numbers`` the other attributes."""
    world_size, experts, quant_mode, sync_flag, first_ffn = numbers
    ranks = resolve_world(_OP, group, world_size)
    session, batch, layer = (int(number) for number in ids)
    check_index_range(_OP, "session_id", ids[0], data_shape[0])
    check_index_range(_OP, "micro_batch_id", ids[1], data_shape[1])
    check_index_range(_OP, "layer_id", ids[2], expert_rank_table.size(0))
    check_index_range(_OP, "expert_ids", expert_ids, experts)
    shared = expert_rank_table.size(1) - experts
    tokens = _count_active(active_mask, x.size(1))
    choices = torch.cat([expert_ids[0], torch.arange(experts, experts + shared).expand(x.size(1), -1)], 1)[:tokens]
    targets, local_ids = _look_up_ranks(expert_rank_table[layer], choices.to(torch.int64), session)
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
        token, choice = (targets == rank).nonzero(as_tuple=True)
        rows = x[0][token]
        data = windows[rank].data[session, batch]
        if quant_mode:
            values, row_scales = quantise_rows(rows, None if scales is None else scales[0][choices[token, choice]])
            data[token, choice, : x.size(2)] = values
            start = -(-x.size(2) // 32) * 32
            data[token, choice, start : start + 4] = row_scales.view(torch.int8).view(-1, 4)
        else:
            data[token, choice, : x.size(2)] = rows
        column = 2 + token * choices.size(1) + choice
        windows[rank].info[session, batch, column] = local_ids[token, choice].to(torch.int32)
    for window in windows.values():
        window.info[session, batch, 1] = layer
        window.info[session, batch, 0] = 1


def _count_active(mask: Tensor | None, tokens: int) -> int:
    """The number of active tokens; the mask must have every True before the first False."""
    if mask is None:
        return tokens
    if bool((mask[0, 1:] & ~mask[0, :-1]).any()):
        raise Refusal(f"{_OP}: active_mask must have every True before the first False, got {mask[0].tolist()}")
    return int(mask.sum())


def _look_up_ranks(table: Tensor, ids: Tensor, session: int) -> tuple[Tensor, Tensor]:
    """The rank of every token and expert, and the local id of the expert on that rank."""
    rows = table.to(torch.int64)[ids]
    copies = rows[..., 0]
    most = (table.size(1) - 1) // 2
    if bool(((copies < 1) | (copies > most)).any()):
        wrong = int(copies[(copies < 1) | (copies > most)][0])
        raise Refusal(f"{_OP}: expert_rank_table must count from 1 to {most} ranks of an expert, got {wrong}")
    column = (session % copies) * 2 + 1
    return tuple(rows.gather(-1, (column + offset).unsqueeze(-1)).squeeze(-1) for offset in (0, 1))  # type: ignore[return-value]


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
