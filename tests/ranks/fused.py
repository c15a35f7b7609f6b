"""Run by every rank: operators that compute and communicate, in graphs: as eagerly, where values are known."""

from typing import Any

import torch
from experts import expert_inputs, there_and_back
from products import product_inputs, together


def both(products: tuple[Any, ...], experts: tuple[Any, ...]) -> tuple[torch.Tensor, ...]:
    return (*together(*products), there_and_back(*experts))


def fused_graphs() -> None:
    args = (product_inputs(), expert_inputs())
    expected = both(*args)
    for backend in ("npu", "npugraph_ex"):
        compiled = torch.compile(both, backend=backend, fullgraph=True, dynamic=False)
        for _ in range(2):
            for got, wanted in zip(compiled(*args), expected, strict=True):
                assert torch.equal(got.cpu(), wanted.cpu()), (backend, got, wanted)
