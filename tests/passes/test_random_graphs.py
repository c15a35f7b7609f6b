"""Graphs put together at random: what they compute with all passes and without keeps every bit.

A sample runs with the other tests; ``GRAPH_QUANT_RANDOM_GRAPHS=5000 pytest tests/passes/test_random_graphs.py`` tries
more.
"""

from __future__ import annotations

import os

import pytest
import torch
from graph_quant import passes

from support.graph_builder import results
from support.random_graphs import Maker
from support.tensors import SEED

GRAPHS = int(os.environ.get("GRAPH_QUANT_RANDOM_GRAPHS", "80"))
BATCHES = 2


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Which NaN a cast gives, GE does not say: one is as good as another."""
    if (one.dtype, one.shape) != (other.dtype, other.shape) or not torch.equal(one.isnan(), other.isnan()):
        return False
    numbers = [torch.where(each.isnan(), 0, each).clone(memory_format=torch.contiguous_format) for each in (one, other)]
    return bytes(numbers[0].untyped_storage()) == bytes(numbers[1].untyped_storage())


@pytest.mark.parametrize("batch", range(BATCHES))
def test_passes_keep_every_bit(batch: int) -> None:
    for seed in range(SEED * GRAPHS + batch, SEED * GRAPHS + GRAPHS, BATCHES):
        maker = Maker(seed)
        graph = maker.graph()
        before = results(graph, *maker.inputs)
        shapes = [tuple(maker.values[name].shape) for name in graph.op[-1].input]
        assert [tuple(each.shape) for each in before] == shapes, f"seed {seed}: the graph is not what was meant"
        passes.run(graph, passes.NAMES, maker.given)
        after = results(graph, *maker.inputs)
        assert all(map(same_bits, before, after)), f"seed {seed}"
