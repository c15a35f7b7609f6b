"""Building blocks of patterns: PyTorch's matcher with operands in any order and any number of readers."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import Any

import torch
from torch._inductor.pattern_matcher import MULTIPLE, CallFunction, KeywordArg

aten = torch.ops.aten
Alternatives = list[Any]


def call(target: Any, *args: Any, **kwargs: Any) -> CallFunction:
    """A call of ``target`` that any number of nodes may read."""
    return CallFunction(target, *args, **kwargs, _users=MULTIPLE)


def leaf(name: str) -> KeywordArg:
    """Anything; the match has it by its name."""
    return KeywordArg(name)


def either(target: Any, first: Iterable[Any], second: Iterable[Any]) -> Alternatives:
    """A commutative operator with its operands in both orders; each operand has alternatives of its own."""
    pairs = list(product(first, second))
    return [call(target, *pair) for pair in pairs] + [call(target, other, one) for one, other in pairs]


def through(target: Any, operands: Iterable[Any], *args: Any, **kwargs: Any) -> Alternatives:
    """A call of ``target`` on each alternative of its first operand."""
    return [call(target, operand, *args, **kwargs) for operand in operands]
