"""Wrong calls of npu_advance_step_flashattn; allowed ones are in test_advance_step.py, because it returns nothing."""

from typing import Any

import torch

from support.call_table import bad
from support.tensors import ends

OP = "advance_step_flashattn"


def rows(count: int, width: int | None = None, start: int = 1) -> torch.Tensor:
    total = count if width is None else count * width
    values = torch.arange(start, start + total)
    return values if width is None else values.reshape(count, width)


def step(**other: Any) -> tuple[Any, ...]:
    """Two queries of four sequences, in blocks of two."""
    arguments: dict[str, Any] = {
        "input_tokens": rows(4), "sampled_token_ids": rows(2, 1), "input_positions": rows(4), "seq_lens": rows(4),
        "slot_mapping": rows(4), "block_tables": rows(4, 3), "num_seqs": 4, "num_queries": 2, "block_size": 2,
    } | other  # fmt: skip
    return tuple(arguments.values())


def many(sequences: int, queries: int) -> tuple[Any, ...]:
    return step(
        input_tokens=rows(sequences), sampled_token_ids=rows(queries, 1), input_positions=rows(sequences),
        seq_lens=rows(sequences), slot_mapping=rows(sequences), block_tables=rows(sequences, 99),
        num_seqs=sequences, num_queries=queries,
    )  # fmt: skip


def speculative(**other: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Two sequences of three tokens each."""
    named = {"spec_token": rows(2, 2, 50), "accepted_num": ends(2, 0, dtype=torch.int64)}
    named |= {name: value for name, value in other.items() if name in named}
    arguments = {
        "input_tokens": rows(6), "sampled_token_ids": rows(2, 3, 10), "input_positions": rows(6), "seq_lens": rows(6),
        "slot_mapping": rows(6), "block_tables": rows(2, 9), "num_seqs": 2, "num_queries": 2,
    }  # fmt: skip
    return step(**(arguments | {name: value for name, value in other.items() if name not in named})), named


def wrong(argument: str, label: str, **other: Any) -> Any:
    args, named = speculative(**other)
    return bad(OP, argument, label, *args, **named)


WRONG = [
    bad(OP, "num_queries", "no query", *step(num_queries=0)),
    bad(OP, "num_seqs", "as many queries", *step(num_queries=4, sampled_token_ids=rows(4, 1))),
    bad(OP, "num_queries", "more than cores", *many(50, 41)),
    bad(OP, "num_seqs - num_queries", "more to clear than cores", *many(42, 1)),
    bad(OP, "block_size", "no block", *step(block_size=0)),
    bad(OP, "input_tokens", "int32", *step(input_tokens=rows(4).int())),
    bad(OP, "seq_lens.size(0)", "fewer lengths", *step(seq_lens=rows(3))),
    bad(OP, "slot_mapping", "slots in two dimensions", *step(slot_mapping=rows(4, 1))),
    bad(OP, "sampled_token_ids.size(0)", "a token for each sequence", *step(sampled_token_ids=rows(4, 1))),
    bad(OP, "sampled_token_ids.size(1)", "two tokens", *step(sampled_token_ids=rows(2, 2))),
    bad(OP, "sampled_token_ids", "one dimension", *step(sampled_token_ids=rows(2))),
    bad(OP, "block_tables.size(0)", "fewer rows", *step(block_tables=rows(3, 3))),
    bad(OP, "block_tables.size(1)", "no block of a sequence", *step(block_tables=rows(4, 0))),
    bad(OP, "accepted_num", "speculation by half", *step(), spec_token=rows(4, 2)),
    wrong("spec_token.size(0)", "fewer sequences", spec_token=rows(1, 2)),
    wrong("spec_token.size(1)", "no speculation", spec_token=rows(2, 0)),
    wrong("accepted_num.size(0)", "fewer counts", accepted_num=rows(1)),
    wrong("sampled_token_ids.size(1)", "fewer samples", sampled_token_ids=rows(2, 2)),
    wrong("input_tokens.size(0)", "fewer tokens", input_tokens=rows(4)),
]
WRONG_VALUES = [
    bad(OP, "seq_lens", "beyond all rows", *step(seq_lens=ends(24, 0, 0, 0, dtype=torch.int64))),
    wrong("input_positions", "beyond a row", accepted_num=ends(17, 0, dtype=torch.int64)),
    wrong("sampled_token_ids", "no token", sampled_token_ids=torch.full((2, 3), -1)),
]
