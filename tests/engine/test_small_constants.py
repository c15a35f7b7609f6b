"""Small integer tensors that a compiled function makes are data and sizes alike: graphs give eager's bits for them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from graph_quant.host.engine import HostGraph

INTEGERS = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)
EXPRESSIONS = 60

Numbers = Any
Made = tuple[Numbers, torch.dtype]


def numbers(chance: random.Random, shape: tuple[int, ...], dtype: torch.dtype, zeros: bool = True) -> Numbers:
    if shape:
        return [numbers(chance, shape[1:], dtype, zeros) for _ in range(shape[0])]
    limits = torch.iinfo(dtype)
    number = chance.choice((limits.max, limits.min, chance.randint(max(limits.min, -9), 9), chance.randint(0, 9)))
    # The smallest number over -1 is undefined in C++.
    return number if zeros or number not in (0, -1) else 3


BINARY: list[Callable[[Any, Any], Any]] = [
    torch.add, torch.sub, torch.mul, torch.maximum, torch.minimum, torch.eq, torch.ne, torch.lt, torch.le, torch.gt,
    torch.ge, lambda a, b: torch.where(a > b, a, b + 1), lambda a, b: torch.pow(a, torch.maximum(b, b * 0) % 4),
]  # fmt: skip
DIVISIONS: list[Callable[[Any, Any], Any]] = [
    lambda a, b: torch.div(a, b, rounding_mode="trunc"), lambda a, b: torch.div(a, b, rounding_mode="floor"),
    torch.remainder,
]  # fmt: skip
MOVES: list[Callable[[Any, int], Any]] = [
    lambda a, d: torch.cat([a, a + 1], d), lambda a, d: torch.stack([a, a + 1], d), lambda a, d: a.select(d, -1),
    lambda a, d: a.unbind(d)[0], lambda a, d: a.unsqueeze(d), lambda a, d: a.narrow(d, 0, 1), torch.squeeze,
    lambda a, _: a.neg(), lambda a, _: a.reshape(-1), lambda a, d: a.sum(d, dtype=a.dtype),
    lambda a, d: a.sum(d, keepdim=True, dtype=a.dtype), lambda a, _: a.to(torch.uint8), lambda a, _: a.to(torch.int32),
    lambda a, d: a.index_select(d, torch.tensor([0, 0], device=a.device)), lambda a, _: a.floor(),
    lambda a, _: a[..., ::2], lambda a, _: a.clone(),
]  # fmt: skip


def random_graph(chance: random.Random, count: int, with_sizes: bool) -> Callable[[torch.Tensor], list[torch.Tensor]]:
    """A function of ``count`` expressions over fresh constants, and with sizes of its argument where asked."""
    steps: list[tuple[Made, Made, Callable[[Any, Any], Any], Callable[[Any, int], Any], int]] = []
    for at in range(count):
        dtype = chance.choice(INTEGERS)
        shape = tuple(chance.randint(1, 3) for _ in range(chance.randint(0 if at % 3 else 1, 3)))
        divide = chance.random() < 0.3
        other = tuple(1 if chance.random() < 0.3 else size for size in shape[chance.randint(0, len(shape)) :])
        steps.append(
            (
                (numbers(chance, shape, dtype), dtype),
                (numbers(chance, other, dtype, not divide), dtype),
                chance.choice(DIVISIONS if divide else BINARY),
                chance.choice(MOVES) if shape else torch.mul,
                chance.randint(-len(shape), len(shape) - 1) if shape else 1,
            )
        )

    def function(x: torch.Tensor) -> list[torch.Tensor]:
        results = []
        for (left, dtype), (right, _), combine, move, dim in steps:
            first = torch.tensor(left, dtype=dtype, device="npu")
            if with_sizes:
                first = first + torch.scalar_tensor(x.size(0), dtype=dtype, device="npu")
            combined = combine(first, torch.tensor(right, dtype=dtype, device="npu"))
            if combined.dtype == torch.bool:
                combined = combined.to(torch.int16)
            results.append(move(combined, dim))
        return results

    return function


def check(function: Callable[..., Any], compiled: Callable[..., Any], *arguments: torch.Tensor) -> None:
    for at, (one, other) in enumerate(zip(function(*arguments), compiled(*arguments), strict=True)):
        assert (one.dtype, one.shape) == (other.dtype, other.shape), at
        assert torch.equal(one, other), (at, one, other)


def rows(count: int) -> torch.Tensor:
    """Return a tensor with a dynamic number of rows; its values stay constants."""
    x = torch.ones(count, 2).npu()
    torch._dynamo.mark_dynamic(x, 0)
    return x


@pytest.mark.filterwarnings("ignore")
def test_graphs_of_small_integers(compile_npu: Callable[..., Any]) -> None:
    function = random_graph(random.Random(7), EXPRESSIONS, with_sizes=False)
    check(function, compile_npu(function, dynamic=False), torch.ones(5, 2).npu())


@pytest.mark.filterwarnings("ignore")
def test_graphs_of_small_integers_and_sizes(
    compile_npu: Callable[..., Any], loaded_graphs: list[HostGraph], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inductor traces the imported graph, size kernels and all: what a tracer sees is the same."""
    run = HostGraph.run
    fed: list[Any] = []
    monkeypatch.setattr(HostGraph, "run", lambda graph, inputs, *rest: fed.append(inputs) or run(graph, inputs, *rest))
    function = random_graph(random.Random(8), EXPRESSIONS // 2, with_sizes=True)
    compiled = compile_npu(function, dynamic=None)
    for count in (5, 100):
        check(function, compiled, rows(count))
    (graph,) = loaded_graphs
    assert graph.module is not None
    traced = torch.compile(graph.module, backend="aot_eager", dynamic=True, fullgraph=True)
    for count, inputs in zip((5, 100), fed, strict=True):
        arguments = [read(tensor) for read, tensor in zip(graph._readers, inputs, strict=True)]
        for one, other in zip(function(rows(count)), traced(*arguments), strict=True):
            assert torch.equal(one.cpu(), other)


@pytest.mark.filterwarnings("ignore")
def test_calls_that_once_failed(compile_npu: Callable[..., Any]) -> None:
    def function(x: torch.Tensor) -> list[torch.Tensor]:
        def made(values: Numbers, dtype: torch.dtype = torch.int64) -> torch.Tensor:
            return torch.tensor(values, dtype=dtype, device=x.device)

        return [
            made([[1, 2], [3, 4]]).sum(0),
            made([[10], [20]]) + made([[1, 2]]),
            torch.where(made([1, 0]).bool(), made([5, 6]), made([7, 8])),
            torch.div(made([-7, 7]), made([2, 2]), rounding_mode="trunc"),
            made([2**31 - 1], torch.int32) + made([1], torch.int32),
            made([300]).to(torch.uint8),
            torch.cat([made([[1, 2]]), made([[3, 4]])], 0),
            torch.stack([made([1, 2]), made([3, 4])], 1),
            made([[1, 2], [3, 4]])[1],
        ]

    check(function, compile_npu(function), torch.ones(1).npu())
