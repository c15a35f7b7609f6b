"""Random graphs: all passes together keep every bit of the results.

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
    """Equal dtype, shape and bits. Any NaN equals any other: GE does not specify the NaN of a cast."""
    if (one.dtype, one.shape) != (other.dtype, other.shape) or not torch.equal(one.isnan(), other.isnan()):
        return False
    numbers = [
        torch.where(tensor.isnan(), 0, tensor).clone(memory_format=torch.contiguous_format) for tensor in (one, other)
    ]
    return bytes(numbers[0].untyped_storage()) == bytes(numbers[1].untyped_storage())


@pytest.mark.parametrize("batch", range(BATCHES))
def test_passes_keep_every_bit(batch: int) -> None:
    for seed in range(SEED * GRAPHS + batch, SEED * GRAPHS + GRAPHS, BATCHES):
        maker = Maker(seed)
        graph = maker.graph()
        before = results(graph, *maker.inputs)
        shapes = [tuple(maker.values[name].shape) for name in graph.op[-1].input]
        assert [tuple(tensor.shape) for tensor in before] == shapes, f"seed {seed}: the graph is not what was meant"
        passes.run(graph, passes.NAMES, maker.input_info)
        after = results(graph, *maker.inputs)
        assert all(map(same_bits, before, after)), f"seed {seed}"
