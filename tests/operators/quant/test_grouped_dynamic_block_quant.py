"""npu_grouped_dynamic_block_quant on Ascend 950: calls, refusals, and npu_dynamic_block_quant of every group."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch_npu
from graph_quant import chip
from graph_quant.chip import ASCEND_950

from support.ascend950 import assert_refused, run_in_every_mode, same_bits
from support.tensors import bf16, ends, f16, f32

HIF8, E5M2, E4M3 = 290, 291, 292
quantise = torch_npu.npu_grouped_dynamic_block_quant


@pytest.fixture(autouse=True)
def on_950() -> Iterator[None]:
    with chip.use(ASCEND_950):
        yield


CALLS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((f16(5, 140), ends(2, 2, 5)), {}),
    ((bf16(2, 300, 70), ends(130, 290)), {"dst_type": E4M3, "row_block_size": 128, "col_block_size": 64}),
    (
        (f16(6, 70), ends(4, 6)),
        {"dst_type": HIF8, "round_mode": "round", "dst_type_max": 15.0, "min_scale": 4.0},
    ),
]


def test_graphs_and_meta_tensors_agree_with_eager_execution() -> None:
    run_in_every_mode(quantise, CALLS)


@pytest.mark.parametrize("index", range(len(CALLS)))
def test_groups_are_those_of_npu_dynamic_block_quant(index: int) -> None:
    (x, groups), options = CALLS[index]
    y, scale = (result.cpu() for result in quantise(x.npu(), groups.npu(), **options))
    rows = options.get("row_block_size", 1)
    start = 0
    for group, end in enumerate(groups.tolist()):
        if end > start:
            part = torch_npu.npu_dynamic_block_quant(x[..., start:end, :].npu(), **{"dst_type": E5M2, **options})
            first = start // rows + group
            shared = scale[..., first : first + part[1].size(-2), :]
            assert same_bits((y[..., start:end, :].contiguous(), shared.contiguous()), part)
        start = end
    assert not y[..., start:, :].contiguous().view(torch.uint8).any()


X, ENDS = f16(4, 128), ends(2, 4)
WRONG: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("x must be", (f32(4, 128), ENDS), {}),
    ("x must have 2 to 3", (f16(128), ENDS), {}),
    ("group_list must be", (X, ENDS.long()), {}),
    ("min_scale", (X, ENDS), {"min_scale": -1.0}),
    ("row_block_size", (X, ENDS), {"row_block_size": 64}),
    ("col_block_size", (X, ENDS), {"col_block_size": 32}),
    ("group_list_type", (X, ENDS), {"group_list_type": 1}),
    ("dst_type must be one of", (X, ENDS), {"dst_type": torch.int8}),
    ("round_mode", (X, ENDS), {"dst_type": HIF8}),
    ("hybrid is not described", (X, ENDS), {"dst_type": HIF8, "round_mode": "hybrid"}),
    ("dst_type_max", (X, ENDS), {"dst_type_max": 15.0}),
]


@pytest.mark.parametrize(("message", "args", "options"), WRONG)
def test_wrong_calls_are_refused(message: str, args: tuple[Any, ...], options: dict[str, Any]) -> None:
    assert_refused(quantise, message, args, options)
