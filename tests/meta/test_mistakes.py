"""Calls that a device takes and that are nearly always mistakes are warned of, once."""

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch_npu
from graph_quant import mistakes
from graph_quant.mistakes import LikelyMistakeWarning

from support.tensors import ends, f16

ROWS, EXPERTS = f16(6, 16), f16(3, 16, 16)


@pytest.fixture(autouse=True)
def nothing_shown() -> Iterator[None]:
    """Forget what was shown before, and what the test shows."""
    shown = set(mistakes._shown)
    mistakes._shown.clear()
    yield
    mistakes._shown.clear()
    mistakes._shown.update(shown)


def _grouped(*values: int, kind: int) -> Callable[[], Any]:
    options = {"split_item": 3, "group_type": 0, "group_list_type": kind}
    groups = ends(*values, dtype=torch.int64).npu()
    return lambda: torch_npu.npu_grouped_matmul([ROWS.npu()], [EXPERTS.npu()], group_list=groups, **options)


def _attention(columns: int) -> Callable[[], Any]:
    query, mask = f16(1, 2, 4, 16).npu(), torch.zeros(4, columns, dtype=torch.bool).npu()
    return lambda: torch_npu.npu_fused_infer_attention_score(
        query, query, query, num_heads=2, input_layout="BNSD", atten_mask=mask, sparse_mode=1, scale=0.25
    )


MISTAKES = {
    "counts for ends": (_grouped(1, 2, 3, kind=0), r"group_list \[1, 2, 3\] adds up to the 6 rows"),
    "a mask that is too wide": (_attention(64), "atten_mask has 64 columns for 4 keys"),
}
INTENDED = {
    "ends": _grouped(1, 3, 6, kind=0),
    "ends, and rows without a group": _grouped(1, 2, 4, kind=0),
    "counts": _grouped(1, 2, 3, kind=1),
    "one group": _grouped(0, 0, 6, kind=0),
    "a mask that fits": _attention(4),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_warned_of_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    call, message = MISTAKES[name]
    with pytest.warns(LikelyMistakeWarning, match=message):
        call()
    with warnings.catch_warnings():
        warnings.simplefilter("error", LikelyMistakeWarning)
        call()
        mistakes._shown.clear()
        monkeypatch.setenv("GRAPH_QUANT_WARNINGS", "off")
        call()


@pytest.mark.parametrize("name", INTENDED)
def test_intended_calls_are_not_warned_of(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", LikelyMistakeWarning)
        INTENDED[name]()


def test_setting_is_on_or_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPH_QUANT_WARNINGS", "no")
    with pytest.raises(ValueError, match="GRAPH_QUANT_WARNINGS must be on or off, got 'no'"):
        mistakes.warn_once("npu_x", "x", "x")
