"""The seed of a graph with random operators: TorchAir writes it into the graph, and reads only the offset.

So samples are new with each call, but torch.manual_seed between two calls has no effect except on the offset. Here the
seed is read from the generator in each call. A random operator with an empty result also advances the generator, as in
eager mode: TorchAir drops operators whose results are empty.
"""

from __future__ import annotations

import sys
from typing import Any

_MODULE = "torchair.ge._ge_graph"
_CONVERTER = "torchair._ge_concrete_graph.fx2ge_converter"
_INT64 = 1 << 64
# The random operators of graphs: all others are decomposed into these.
_RANDOM_OPS = (
    "aten.bernoulli.default",
    "aten.bernoulli.p",
    "aten.rand.default",
    "aten.randn.default",
    "aten.randperm.default",
)


def patch() -> None:
    """Let TorchAir read a generator's seed in each call."""
    module = sys.modules[_MODULE]
    state = module._GraphRngState
    start, consume = state.__init__, state.consume

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        start(self, *args, **kwargs)
        constant = self._seed.node
        _, self._seed = self.next(0)
        module.get_default_ge_graph().op.remove(constant)

    def with_seed(self: Any) -> Any:
        values = consume(self)
        seed = self._gen.initial_seed()
        values[0] = seed - _INT64 if seed >= _INT64 // 2 else seed
        return values

    state.__init__, state.consume = __init__, with_seed
    sys.modules[_CONVERTER]._DONT_EMPTY_TENSOR_OPT_OPS.update(_RANDOM_OPS)
