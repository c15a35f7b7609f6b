"""Run by every rank: operators that compute and communicate, in graphs: as eagerly, where values are known."""

from typing import Any
from unittest.mock import patch

import torch
import torch_npu
from experts import by_shared, expert_inputs, normalised, there_and_back
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
    with patch.object(torch_npu.npu, "get_device_name", lambda *_: "Ascend910_9392"):
        x, *rest = expert_inputs()
        wide = (x.repeat(1, 32), *rest)
        for function in (by_shared, normalised):
            lowered = torch.compile(function, backend="npu", fullgraph=True, dynamic=False)
            assert torch.equal(lowered(*wide).cpu(), function(*wide).cpu())
