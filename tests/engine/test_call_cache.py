"""Cached calls of Inductor's code: results do not depend on earlier calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torchair
from graph_quant.host.engine import call_cache, use


@pytest.fixture
def cache_hits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of inputs of each call that used a cached entry."""
    counts: list[int] = []
    run = call_cache._CachedCall.run

    def counting(entry: Any, inputs: Any) -> Any:
        counts.append(len(inputs))
        return run(entry, inputs)

    monkeypatch.setattr(call_cache._CachedCall, "run", counting)
    return counts


def compiled(function: Callable[..., Any], *, dynamic: bool) -> Callable[..., Any]:
    torch._dynamo.reset()
    return torch.compile(function, backend=torchair.get_npu_backend(), fullgraph=True, dynamic=dynamic)


def several(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x * 2 - y, torch.cat([x, y]), x


def test_cached_calls_match_on_sizes_and_strides(cache_hits: list[int]) -> None:
    with use("inductor"):
        function = compiled(several, dynamic=True)
        for rows, columns in ((3, 4), (3, 4), (5, 2), (3, 4), (5, 2)):
            x, y = torch.randn(rows, columns), torch.randn(rows, columns)
            for one, other in ((x, y), (x, x), (y.t().contiguous().t(), x)):
                results, wanted = function(one.npu(), other.npu()), several(one, other)
                assert all(torch.equal(a.cpu(), b) for a, b in zip(results, wanted, strict=True))
    assert len(cache_hits) > 5


def test_a_tensor_passed_twice_is_not_cached(cache_hits: list[int]) -> None:
    """Dynamo merges a tensor that is passed twice into one input."""

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
    assert cache_hits == [2, 2]


def test_a_graph_that_writes_to_its_inputs_is_not_cached(cache_hits: list[int]) -> None:
    """Whether inputs share memory affects the compiled code."""

    def write(cache: torch.Tensor, index: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        torch.ops.npu.scatter_update_(cache, index, rows, -2)
        return cache.sum()

    index, results = torch.zeros(2, dtype=torch.int64).npu(), []
    with use("inductor"):
        function = compiled(write, dynamic=False)
        for value in (1.0, 2.0, 3.0):
            cache = torch.zeros(2, 1, 4, 8).npu()
            results.append(float(function(cache, index, torch.full((2, 1, 1, 8), value).npu())))
            assert float(cache.sum()) == results[-1]
    assert results == [16.0, 32.0, 48.0]
    assert not cache_hits


def test_number_arguments_are_part_of_the_key() -> None:
    """1, 1.0 and True are equal, and not the same."""
    x = torch.zeros(2)
    assert len({call_cache._key((x, number)) for number in (1, 1.0, True, 2)}) == 4
    assert call_cache._key((x, 1)) == call_cache._key((torch.ones(2), 1))
    assert call_cache._key((x[1:],)) != call_cache._key((x[:1],))
