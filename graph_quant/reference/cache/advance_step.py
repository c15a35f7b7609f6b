"""npu_advance_step_flashattn: the next step of generation, written into tokens, positions, lengths and slots.

As the kernels do it, which is not all as the documents say. Without speculation a slot is
``(block_tables[0, position // block_size] + stride * query) * block_size + position % block_size``, position the length
before the step: the kernel reads the table from its first row on. Behind the queries one place is cleared, the first.
With speculation a slot is taken from the sequence's own row.
"""

from __future__ import annotations

import torch
from graph_quant.reference.checks import value_check
from graph_quant.refusals import Refusal
from torch import Tensor

OP = "npu_advance_step_flashattn"


@value_check
def within(what: str, places: Tensor, count: int) -> Tensor:
    """``places``, refused where one of them is not of ``count``."""
    wrong = (places < 0) | (places >= count)
    if bool(wrong.any()):
        raise Refusal(f"{OP}: {what} must lie in [0, {count}), got {int(places[wrong][0])}")
    return places


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
        each = sampled_token_ids.size(1)
        positions = input_positions + accepted_num.repeat_interleave(each) + 1
        blocks = within("the blocks of input_positions", positions // block_size, width)
        first = torch.arange(len(accepted_num), device=positions.device).repeat_interleave(each) * width
        slots = block_tables.reshape(-1)[first + blocks] * block_size + positions % block_size
        tokens = torch.cat([_last(sampled_token_ids), spec_token], 1).reshape(-1)
        for written, values in (
            (input_positions, positions),
            (seq_lens, positions + 1),
            (slot_mapping, slots),
            (input_tokens, tokens),
        ):
            written.copy_(values)
        return ()
    positions = seq_lens[:num_queries].clone()
    blocks = within("the blocks of seq_lens", positions // block_size, block_tables.numel())
    places = torch.arange(num_queries, device=positions.device) * width
    slots = (block_tables.reshape(-1)[blocks] + places) * block_size + positions % block_size
    input_tokens[num_queries], input_positions[num_queries], slot_mapping[num_queries] = 0, 0, -1
    input_tokens[:num_queries] = sampled_token_ids[:, 0]
    seq_lens[:num_queries] = positions + 1
    input_positions[:num_queries] = positions
    slot_mapping[:num_queries] = slots
    return ()


def _last(sampled: Tensor) -> Tensor:
    """The token before the smallest of each row and a -1 behind it, as a column: the last that is not -1."""
    ended = torch.cat([sampled, sampled.new_full((sampled.size(0), 1), -1)], 1)
    # As float32, which is what the kernel compares.
    before = within("the tokens before the first -1 of sampled_token_ids", ended.float().argmin(1) - 1, sampled.size(1))
    return sampled.gather(1, before.unsqueeze(1))
