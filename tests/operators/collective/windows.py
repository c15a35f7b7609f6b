"""Calls of operators that write into windows of other ranks; only A3 has them, on A2 all are refused."""

import torch

from support.call_table import bad
from support.tensors import f16, i32

COUNT = torch.ones(1, dtype=torch.int64)
TABLES = [1, 1, 8], [1, 1, 2, 3, 1024], [1, 2, 3]
WRONG = [
    bad(
        "attention_to_ffn", "A3", "on A2", f16(1, 2, 1024), i32(1), i32(1), i32(1), i32(1, 2, 2), i32(1, 5, 3), "group",
        2, *TABLES, 4,
    ),
    bad(
        "ffn_to_attention", "A3", "on A2", f16(4, 1024), i32(4), i32(4), i32(4), i32(4), COUNT, "group", 2, [1, 2, 3],
        [1, 2, 3, 1024],
    ),
]  # fmt: skip
