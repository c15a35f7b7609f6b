"""npu_advance_step_flashattn compared with the steps of its kernels, one sequence at a time."""

from typing import Any

import pytest
import torch
import torch_npu

from operators.cache.advance_step import rows, speculative, step


def to_npu(arguments: tuple[Any, ...]) -> list[Any]:
    return [argument.to("npu") if isinstance(argument, torch.Tensor) else argument for argument in arguments]


def test_queries_advance_and_the_first_entry_after_them_is_cleared() -> None:
    arguments = step(seq_lens=torch.tensor([3, 4, 5, 6]))
    tokens, _, positions, lengths, slots, *_ = held = to_npu(arguments)
    assert torch_npu.npu_advance_step_flashattn(*held) is None
    assert tokens.tolist() == [1, 2, 0, 4]
    assert positions.tolist() == [3, 4, 0, 4]
    assert lengths.tolist() == [4, 5, 5, 6]
    # Blocks 1 and 2 of the first row of the table hold 2 and 3; the second query is a row of three further on.
    assert slots.tolist() == [2 * 2 + 1, (3 + 3) * 2 + 0, -1, 4]


@pytest.mark.parametrize("samples", [[[7, 8, 9], [7, -1, -1]], [[7, 8, -1], [0, 5, 1]]])
def test_speculation_advances_by_the_accepted_tokens(samples: list[list[int]]) -> None:
    args, named = speculative(sampled_token_ids=torch.tensor(samples))
    tokens, _, positions, lengths, slots, *_ = held = to_npu(args)
    torch_npu.npu_advance_step_flashattn(*held, **{name: tensor.to("npu") for name, tensor in named.items()})
    table = rows(2, 9).tolist()
    for sequence, sampled in enumerate(samples):
        accepted = named["accepted_num"].tolist()[sequence]
        last = [token for token in sampled if token != -1][-1]
        assert tokens.tolist()[3 * sequence : 3 * sequence + 3] == [last, *named["spec_token"].tolist()[sequence]]
        for index in range(3 * sequence, 3 * sequence + 3):
            position = index + 1 + accepted + 1
            assert positions.tolist()[index] == position
            assert lengths.tolist()[index] == position + 1
            assert slots.tolist()[index] == table[sequence][position // 2] * 2 + position % 2
