"""The seed of a graph that draws: TorchAir writes it into the graph when it compiles, and asks for the offset alone.

So numbers are new with each call, but torch.manual_seed between two calls changes nothing but the offset. Here the seed
is the first of the numbers that are asked of the generator with each call. A draw of no numbers moves the generator as
well, as it does without a graph: TorchAir drops operators whose results are empty.
"""

from __future__ import annotations

import sys
from typing import Any

_HOME = "torchair.ge._ge_graph"
_CONVERTER = "torchair._ge_concrete_graph.fx2ge_converter"
_INT64 = 1 << 64
# What all others are broken up into, and those that stay whole.
_DRAWS = (
    "aten.bernoulli.default",
    "aten.bernoulli.p",
    "aten.rand.default",
    "aten.randn.default",
    "aten.randperm.default",
)


def mend() -> None:
    """Let TorchAir ask a generator for its seed with each call."""
    home = sys.modules[_HOME]
    state = home._GraphRngState
    start, consume = state.__init__, state.consume

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        start(self, *args, **kwargs)
        written = self._seed.node
        _, self._seed = self.next(0)
        home.get_default_ge_graph().op.remove(written)

    def with_seed(self: Any) -> Any:
        drawn = consume(self)
        seed = self._gen.initial_seed()
        drawn[0] = seed - _INT64 if seed >= _INT64 // 2 else seed
        return drawn

    state.__init__, state.consume = __init__, with_seed
    sys.modules[_CONVERTER]._DONT_EMPTY_TENSOR_OPT_OPS.update(_DRAWS)
