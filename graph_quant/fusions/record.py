"""What is declared of one fusion, and the error that says why a match is not fused."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch._inductor.pattern_matcher import PatternExpr
    from torch.fx import Node

    from .rewriter import Rewriter

Leaves = dict[str, Any]


class NotFusedError(Exception):
    """A subgraph looks like a pattern, but the fusion does not apply; the message says why."""


@dataclass(frozen=True)
class Fusion:
    """A subgraph of ATen operators and the npu operator that computes it.

    Attributes:
        name: Its name in ``GRAPH_QUANT_FUSE``.
        operator: The npu operator that replaces the subgraph, if any. The fusion is off where it is not installed.
        patterns: Returns the patterns of PyTorch's matcher. Every operator in them may have any number of readers.
        rewrite: Inserts the replacement of a match, ``rewrite(rewriter, root, leaves)``, and returns whether
            there was anything to replace; raises NotFusedError where the fusion does not apply.
        rounding: How results differ from those of the subgraph.
        bound: The largest difference, relative to the largest magnitude of the result, that the tests accept.
    """

    name: str
    operator: str | None
    patterns: Callable[[], Iterable[PatternExpr]]
    rewrite: Callable[[Rewriter, Node, Leaves], bool]
    rounding: str
    bound: float
