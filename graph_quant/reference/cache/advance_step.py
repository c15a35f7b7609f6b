"""npu_advance_step_flashattn: advances generation by one step and updates tokens, positions, lengths and slots.

This follows the kernels where they differ from the documents. Without speculation a slot is
``(block_tables[0, position // block_size] + stride * query) * block_size + position % block_size``, where position is
the length before the step: the kernel reads the table from its first row on. Only the first entry after the queries is
cleared. With speculation the slot comes from the sequence's own row.
"""

from __future__ import annotations

import torch
from graph_quant.reference.checks import value_check
from graph_quant.refusals import Refusal
from torch import Tensor

OP = "npu_advance_step_flashattn"


@value_check
def check_indices(what: str, indices: Tensor, count: int) -> Tensor:
    """``indices``; refuses any outside [0, count)."""
    wrong = (indices < 0) | (indices >= count)
    if bool(wrong.any()):
        raise Refusal(f"{OP}: {what} must lie in [0, {count}), got {int(indices[wrong][0])}")
    return indices


def advance_step(
    input_tokens: Tensor,
    sampled_token_ids: Tensor,
    input_positions: Tensor,
    seq_lens: Tensor,
    slot_mapping: Tensor,
    block_tables: Tensor,
    num_queries: int,
    block_size: int,
    spec_token: Tensor | None,
    accepted_num: Tensor | None,
) -> tuple[()]:
    """Writes into input_tokens, input_positions, seq_lens and slot_mapping."""
    width = block_tables.size(1)
    if spec_token is not None and accepted_num is not None:
        steps = sampled_token_ids.size(1)
        positions = input_positions + accepted_num.repeat_interleave(steps) + 1
        blocks = check_indices("the blocks of input_positions", positions // block_size, width)
        first = torch.arange(len(accepted_num), device=positions.device).repeat_interleave(steps) * width
        slots = block_tables.reshape(-1)[first + blocks] * block_size + positions % block_size
        tokens = torch.cat([_last_tokens(sampled_token_ids), spec_token], 1).reshape(-1)
        for target, values in (
            (input_positions, positions),
            (seq_lens, positions + 1),
            (slot_mapping, slots),
            (input_tokens, tokens),
        ):
            target.copy_(values)
        return ()
    positions = seq_lens[:num_queries].clone()
    blocks = check_indices("the blocks of seq_lens", positions // block_size, block_tables.numel())
    offsets = torch.arange(num_queries, device=positions.device) * width
    slots = (block_tables.reshape(-1)[blocks] + offsets) * block_size + positions % block_size
    input_tokens[num_queries], input_positions[num_queries], slot_mapping[num_queries] = 0, 0, -1
    input_tokens[:num_queries] = sampled_token_ids[:, 0]
    seq_lens[:num_queries] = positions + 1
    input_positions[:num_queries] = positions
    slot_mapping[:num_queries] = slots
    return ()


def _last_tokens(sampled: Tensor) -> Tensor:
    """The last token of each row that is not -1, as a column: the one before the minimum of the row and a -1."""
    ended = torch.cat([sampled, sampled.new_full((sampled.size(0), 1), -1)], 1)
    # The kernel compares in float32.
    index = ended.float().argmin(1) - 1
    index = check_indices("the tokens before the first -1 of sampled_token_ids", index, sampled.size(1))
    return sampled.gather(1, index.unsqueeze(1))
