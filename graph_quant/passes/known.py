"""What is proved of the outputs of a graph before it runs: dtype, shape, and the numbers in small integer tensors.

It rests on what GE says of each node type (``results``), never on descs of computed values, which TorchAir leaves open
or writes for a view that it put off. An output of which nothing is proved is an empty ``Known``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from ..ge import OF_ATTRIBUTE, OF_DESC, TO_DESC, plain
from .sizes import Sizes, number, symbol

# Longer ones are data, and not followed.
LONGEST = 64


class Known(NamedTuple):
    """What is proved of one output. ``value`` are its elements in order."""

    dtype: str | None = None
    shape: Sizes | None = None
    value: Sizes | None = None

    @property
    def desc(self) -> int | None:
        """The dtype as descs number it."""
        return None if self.dtype is None else TO_DESC.get(self.dtype)

    @property
    def numbers(self) -> list[int] | None:
        """The elements, where all are numbers."""
        found = [size.number for size in self.value or ()]
        return None if self.value is None or None in found else [each for each in found if each is not None]


class Given(NamedTuple):
    """What is known of an input from outside the graph: its shape and, of a size, the value; symbols above zero."""

    shape: Sizes | None = None
    value: Sizes | None = None
    positive: frozenset[str] = frozenset()


NOTHING = Known()


class FedNode:
    """A node, and what is known of its inputs by their names."""

    def __init__(self, op: Any, inputs: Mapping[str, Known], numbers: frozenset[str] = frozenset()) -> None:
        self.op = op
        self.inputs = inputs
        # Symbols that are no size of a tensor: numbers that a caller gives, as large as he likes.
        self.numbers = numbers

    def __getitem__(self, name: str) -> Known:
        return self.inputs.get(name, NOTHING)

    def attribute(self, name: str, default: Any = None) -> Any:
        """An attribute as a Python value."""
        return plain(self.op.attr[name]) if name in self.op.attr else default

    def dtype(self, attribute: str) -> str | None:
        """The dtype that an attribute names."""
        return OF_ATTRIBUTE.get(self.attribute(attribute))


Telling = Callable[[FedNode], Known | list[Known]]
TOLD: dict[str, Telling] = {}


def tells(*types: str) -> Callable[[Telling], Telling]:
    """Makes the decorated function what is known of the results of GE node types, all of them without side effects."""

    def register(function: Telling) -> Telling:
        TOLD.update(dict.fromkeys(types, function))
        return function

    return register


def _symbols(many: Iterable[Sizes | None]) -> frozenset[str]:
    return frozenset(symbol for sizes in many for size in sizes or () for symbol in size.symbols)


class Infer:
    """What is known of every output, found out when it is asked for."""

    def __init__(self, ops: Mapping[str, Any], given: Mapping[str, Given]) -> None:
        self._ops = ops
        self._given = given
        self._found: dict[str, Known] = {}
        self._numbers = _symbols(each.value for each in given.values()) - _symbols(
            each.shape for each in given.values()
        )
        self.positive = frozenset[str]().union(*(each.positive for each in given.values()))

    def known(self, reference: str) -> Known:
        """What is proved of an output."""
        stack = [reference]
        while stack:
            name, _, _ = stack[-1].rpartition(":")
            op = self._ops[name]
            if stack[-1] in self._found:
                stack.pop()
                continue
            waiting = [each for each in op.input if each and not each.endswith(":-1") and each not in self._found]
            if waiting and op.type in TOLD:
                stack.extend(waiting)
                continue
            self._conclude(op)
            self._found.setdefault(stack.pop(), NOTHING)
        return self._found[reference]

    def forget(self, name: str) -> None:
        """Learn anew of a node that was changed."""
        for place in range(max(len(self._ops[name].output_desc), 1)):
            self._found.pop(f"{name}:{place}", None)

    def _conclude(self, op: Any) -> None:
        if op.type in ("Data", "RefData"):
            found: Known | list[Known] = self._input(op)
        elif op.type in TOLD:
            references = [each for each in op.input if not each.endswith(":-1")]
            fed = zip((desc.name for desc in op.input_desc), references, strict=False)
            call = FedNode(op, {name: self._found[each] for name, each in fed if each}, self._numbers)
            try:
                found = TOLD[op.type](call)
            except (
                ArithmeticError,
                IndexError,
                TypeError,
                ValueError,
                struct.error,
            ):  # a node that breaks its own rules is left to the engine
                found = NOTHING
        else:
            found = NOTHING
        for place, each in enumerate(found if isinstance(found, list) else [found]):
            self._found[f"{op.name}:{place}"] = each

    def _input(self, op: Any) -> Known:
        desc = op.output_desc[0]
        dims = list(desc.shape.dim)
        given = self._given.get(op.name, Given())
        shape = given.shape
        if shape is None and -2 not in dims and "origin_shape" not in desc.attr:
            shape = tuple(number(dim) if dim >= 0 else symbol(f"{op.name}[{axis}]") for axis, dim in enumerate(dims))
        return Known(OF_DESC.get(desc.dtype), shape, given.value)
