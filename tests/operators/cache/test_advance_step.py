"""npu_advance_step_flashattn against its kernels' steps, one sequence at a time, and what it leaves as it was."""

from typing import Any

import pytest
import torch
import torch_npu

from operators.cache.advance_step import rows, speculative, step


def moved(arguments: tuple[Any, ...]) -> list[Any]:
    return [argument.to("npu") if isinstance(argument, torch.Tensor) else argument for argument in arguments]


def test_queries_take_a_step_and_the_first_place_behind_them_is_cleared() -> None:
    given = step(seq_lens=torch.tensor([3, 4, 5, 6]))
    tokens, _, positions, lengths, slots, *_ = held = moved(given)
    assert torch_npu.npu_advance_step_flashattn(*held) is None
    assert tokens.tolist() == [1, 2, 0, 4]
    assert positions.tolist() == [3, 4, 0, 4]
    assert lengths.tolist() == [4, 5, 5, 6]
    # Blocks 1 and 2 of the first row of the table hold 2 and 3; the second query is a row of three further on.
    assert slots.tolist() == [2 * 2 + 1, (3 + 3) * 2 + 0, -1, 4]


@pytest.mark.parametrize("samples", [[[7, 8, 9], [7, -1, -1]], [[7, 8, -1], [0, 5, 1]]])
def test_with_speculation_every_sequence_takes_the_steps_that_were_accepted(samples: list[list[int]]) -> None:
    args, named = speculative(sampled_token_ids=torch.tensor(samples))
    tokens, _, positions, lengths, slots, *_ = held = moved(args)
    torch_npu.npu_advance_step_flashattn(*held, **{name: each.to("npu") for name, each in named.items()})
    table = rows(2, 9).tolist()
    for sequence, sampled in enumerate(samples):
        accepted = named["accepted_num"].tolist()[sequence]
        last = [token for token in sampled if token != -1][-1]
        assert tokens.tolist()[3 * sequence : 3 * sequence + 3] == [last, *named["spec_token"].tolist()[sequence]]
        for place in range(3 * sequence, 3 * sequence + 3):
            at = place + 1 + accepted + 1
            assert positions.tolist()[place] == at
            assert lengths.tolist()[place] == at + 1
            assert slots.tolist()[place] == table[sequence][at // 2] * 2 + at % 2
