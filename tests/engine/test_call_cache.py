"""Calls by Inductor's code that pass Dynamo by: the results of each are its own, whatever was called before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torchair
from graph_quant.host.engine import call_cache, use


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of inputs of each call that went straight to compiled code."""
    counts: list[int] = []
    go = call_cache._CachedCall.run

    def counting(way: Any, inputs: Any) -> Any:
        counts.append(len(inputs))
        return go(way, inputs)

    monkeypatch.setattr(call_cache._CachedCall, "run", counting)
    return counts


def compiled(function: Callable[..., Any], *, dynamic: bool) -> Callable[..., Any]:
    torch._dynamo.reset()
    return torch.compile(function, backend=torchair.get_npu_backend(), fullgraph=True, dynamic=dynamic)


def several(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x * 2 - y, torch.cat([x, y]), x


def test_other_data_other_sizes_and_other_strides(taken: list[int]) -> None:
    with use("inductor"):
        function = compiled(several, dynamic=True)
        for rows, columns in ((3, 4), (3, 4), (5, 2), (3, 4), (5, 2)):
            x, y = torch.randn(rows, columns), torch.randn(rows, columns)
            for one, other in ((x, y), (x, x), (y.t().contiguous().t(), x)):
                made, wanted = function(one.npu(), other.npu()), several(one, other)
                assert all(torch.equal(a.cpu(), b) for a, b in zip(made, wanted, strict=True))
    assert len(taken) > 5


def test_one_tensor_for_two_inputs_teaches_nothing_of_two(taken: list[int]) -> None:
    """Dynamo makes one input of a tensor that is given twice."""

    def difference(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x - y * 3

    run = call_cache.CallCache([])
    calls: list[Any] = []

    def checked(*inputs: torch.Tensor) -> list[torch.Tensor]:
        calls.append(inputs)
        single = run.record_calls(lambda x: [difference(x, x)])
        double = run.record_calls(lambda x, y: [difference(x, y)])
        return single(inputs[0]) if inputs[0] is inputs[1] else double(*inputs)  # type: ignore[return-value]

    x, y = torch.ones(3), torch.full((3,), 2.0)
    for pair in ((x, x), (x, y), (y, x), (y, y)):
        assert torch.equal(run.run(checked, pair)[0], difference(*pair))
    assert len(calls) == 2
    assert taken == [2, 2]


def test_a_graph_that_writes_to_its_inputs_has_none(taken: list[int]) -> None:
    """Whether inputs share memory decides what its code may do."""

    def write(cache: torch.Tensor, place: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        torch.ops.npu.scatter_update_(cache, place, rows, -2)
        return cache.sum()

    place, results = torch.zeros(2, dtype=torch.int64).npu(), []
    with use("inductor"):
        function = compiled(write, dynamic=False)
        for value in (1.0, 2.0, 3.0):
            cache = torch.zeros(2, 1, 4, 8).npu()
            results.append(float(function(cache, place, torch.full((2, 1, 1, 8), value).npu())))
            assert float(cache.sum()) == results[-1]
    assert results == [16.0, 32.0, 48.0]
    assert not taken


def test_numbers_beside_the_tensors_tell_calls_apart() -> None:
    """1, 1.0 and True are equal, and not the same."""
    x = torch.zeros(2)
    assert len({call_cache._key((x, number)) for number in (1, 1.0, True, 2)}) == 4
    assert call_cache._key((x, 1)) == call_cache._key((torch.ones(2), 1))
    assert call_cache._key((x[1:],)) != call_cache._key((x[:1],))
