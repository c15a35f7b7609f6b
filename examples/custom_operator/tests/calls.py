"""The table of calls: a line per call, valid ones and wrong ones."""

import torch

VALID = {
    "float32": ((torch.randn(3, 8), torch.rand(3) + 0.1), {}),
    "float16": ((torch.randn(3, 8).half(), torch.rand(3) + 0.1), {}),
    "bfloat16": ((torch.randn(3, 8).bfloat16(), torch.rand(3) + 0.1), {}),
    "bound of 7": ((torch.randn(3, 8) * 100, torch.ones(3)), {"bound": 7}),
    "no rows": ((torch.randn(0, 8), torch.ones(0)), {}),
    "transposed x": ((torch.randn(8, 3).t(), torch.rand(3) + 0.1), {}),
}

# A wrong call, and the message that refuses it.
WRONG = {
    "vector": (
        (torch.randn(8), torch.ones(8)),
        {},
        "row_quant: x must have 2 dimensions, got 1: [8]",
    ),
    "integers": (
        (torch.ones(3, 8, dtype=torch.int32), torch.ones(3)),
        {},
        "row_quant: x must be torch.float16, torch.bfloat16 or torch.float32, got torch.int32",
    ),
    "scale too short": (
        (torch.randn(3, 8), torch.ones(2)),
        {},
        "row_quant: scale.size(0) must equal x.size(0), got 2 and 3",
    ),
    "bound of 128": (
        (torch.randn(3, 8), torch.ones(3)),
        {"bound": 128},
        "row_quant: bound must be from 1 to 127, got 128",
    ),
}
