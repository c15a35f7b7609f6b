"""What an FX node calls, and what is to be known about that."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch._ops import HigherOrderOperator, OpOverload

_CPU = torch.device("cpu")


def name_of(node: fx.Node) -> str:
    """The operator with its overload, as FX prints it, or the name of a function."""
    return str(node.target) if isinstance(node.target, OpOverload | str) else getattr(node.target, "__name__", "?")


def is_operator(node: fx.Node) -> bool:
    """Whether it computes; getitem and the arithmetic of sizes do not count."""
    return node.op == "call_function" and isinstance(node.target, OpOverload)


def is_random(node: fx.Node) -> bool:
    """Whether it draws random numbers."""
    return isinstance(node.target, OpOverload) and torch.Tag.nondeterministic_seeded in node.target.tags


def writes(node: fx.Node) -> bool:
    """Whether it may write to its inputs."""
    if isinstance(node.target, OpOverload):
        return node.target._schema.is_mutable
    return isinstance(node.target, HigherOrderOperator)


def is_view(node: fx.Node) -> bool:
    """Whether its result is its input, seen in another way."""
    return isinstance(node.target, OpOverload) and node.target.is_view


def compute(node: fx.Node, args: Any, kwargs: Any) -> Any:
    """Call it on the CPU, whatever device it names."""
    assert callable(node.target)
    args, kwargs = fx.node.map_aggregate((args, kwargs), _to_cpu)  # type: ignore[misc]
    return node.target(*args, **kwargs)


def _to_cpu(argument: Any) -> Any:
    return _CPU if isinstance(argument, torch.device) else argument
