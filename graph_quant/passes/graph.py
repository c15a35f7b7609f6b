"""A GE graph that passes change: who reads what, and what must not be touched."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ..ge import CONST_TYPES, INPUT_TYPES, OUTPUT_TYPE, written_inputs
from .known import Given, Infer, Known
from .sizes import Sizes

# What a graph has before anything is computed: an output must not become one of these.
_STORED = {*INPUT_TYPES, *CONST_TYPES, "ConstPlaceHolder", "Variable"}
# Nodes whose results may be the memory of their first input.
VIEWS = frozenset((
    "Reshape", "Unsqueeze", "UnsqueezeV3", "Squeeze", "SqueezeV3", "Bitcast", "Identity", "ExpandDims", "Flatten",
    "FlattenV2", "Transpose", "TransposeD", "BroadcastTo", "Expand", "AsStrided", "StridedSlice", "StridedSliceV2",
    "Slice", "Unpack", "SplitV", "Real", "Imag",
))  # fmt: skip
_TOLD = ("_fx_tensor_name", "_meta")


class Reader(NamedTuple):
    """A node by its name, and the place of an input."""

    node: str
    place: int


class Graph:
    """The nodes of a GraphDef by name. An output is named as in the file: ``node:place``.

    Nodes with control edges are ``pinned``: never touched, unless it is asked what passes would do with them.
    """

    def __init__(self, graph_def: Any, given: Mapping[str, Given] | None = None, *, pinned: bool = True) -> None:
        self.graph_def = graph_def
        self.ops: dict[str, Any] = {op.name: op for op in graph_def.op}
        self.readers: dict[str, list[Reader]] = {}
        self.pinned: set[str] = set()
        self._pins = pinned
        # What the pass that runs did: results that stand for others, nodes that are not as they were, how often.
        self.replaced: dict[str, str] = {}
        self.changed: set[str] = set()
        # What stands for a result after all passes so far.
        self.stands: dict[str, str] = {}
        self.changes = 0
        self.constants: dict[tuple[Any, ...], str] = {}
        self.names = set(self.ops)
        for op in graph_def.op:
            self._note(op)
        self.infer = Infer(self.ops, given or {})
        self.written = self._written()

    def _note(self, op: Any) -> None:
        for place, reference in enumerate(op.input):
            if reference.endswith(":-1"):
                if self._pins:
                    self.pinned.update((op.name, reference[:-3]))
            elif reference:
                self.readers.setdefault(reference, []).append(Reader(op.name, place))

    def _written(self) -> set[str]:
        """Outputs in memory that a node writes to which they do not come out of: views of it, and what they are of."""
        writers: dict[str, set[str]] = {}
        for op in self.ops.values():
            for reference in written_inputs(op).values():
                writers.setdefault(self._memory(reference)[0], set()).add(op.name)
        if not writers:
            return set()
        results = [f"{op.name}:{place}" for op in self.ops.values() for place in range(len(op.output_desc))]
        memory = ((result, *self._memory(result)) for result in results)
        return {result for result, start, passed in memory if not writers.get(start, set()) <= passed}

    def _memory(self, reference: str) -> tuple[str, set[str]]:
        """The output whose memory another may be in, and the nodes between them that write to it."""
        writers: set[str] = set()
        while True:
            op = self.maker(reference)
            written = written_inputs(op).get(self.output_desc(reference).name)
            if written is not None:
                writers.add(op.name)
                reference = written
            elif op.type in VIEWS and op.input[0]:
                reference = op.input[0]
            else:
                return reference, writers

    def of_type(self, *types: str) -> Iterator[Any]:
        """The nodes of some types that passes may change; changes meanwhile do not disturb."""
        found = [op for op in self.ops.values() if op.type in types and op.name not in self.pinned]
        return (op for op in found if op.name in self.ops)

    def read_nodes(self) -> set[str]:
        """The nodes of which some result is read."""
        return {reference.rpartition(":")[0] for reference, readers in self.readers.items() if readers}

    def maker(self, reference: str) -> Any:
        """The node that an output belongs to."""
        return self.ops[reference.rpartition(":")[0]]

    def known(self, reference: str) -> Known:
        """What is proved of an output."""
        return self.infer.known(reference)

    def shape(self, reference: str) -> Sizes | None:
        """The shape of an output."""
        return self.known(reference).shape

    def is_output(self, reference: str) -> bool:
        """Whether the graph returns it."""
        return any(self.ops[reader.node].type == OUTPUT_TYPE for reader in self.readers.get(reference, ()))

    def may_replace(self, old: str, new: str) -> bool:
        """Whether readers of ``old`` may read the equal ``new``: memory that is written stays, and so do outputs."""
        if old == new or self.maker(old).name in self.pinned or old in self.written or new in self.written:
            return False
        return not (self.is_output(old) and (self.is_output(new) or self.maker(new).type in _STORED))

    def replace(self, old: str, new: str) -> bool:
        """Let every reader of ``old`` read ``new``, which is equal to it, where that is allowed."""
        new = standing(self.stands, new)
        if not self.may_replace(old, new):
            return False
        readers = self.readers.pop(old, [])
        for reader in readers:
            self._read(reader, new)
        self.changes += bool(readers)
        self.replaced[old] = self.stands[old] = new
        self._tell(self.output_desc(old), self.output_desc(new), self.known(new).desc)
        return True

    def read(self, op: Any, place: int, new: str) -> None:
        """Let one input of a node read another output."""
        if op.input[place] != new:
            self.readers[op.input[place]].remove(Reader(op.name, place))
            self.feed(op, place, new)

    def feed(self, op: Any, place: int, new: str) -> None:
        """Let an input that was fed nothing read an output."""
        self._read(Reader(op.name, place), new)
        self.changed.add(op.name)
        self.changes += 1

    def _read(self, reader: Reader, new: str) -> None:
        self.ops[reader.node].input[reader.place] = new
        self.readers.setdefault(new, []).append(reader)

    def output_desc(self, reference: str) -> Any:
        """The desc of an output."""
        name, _, place = reference.rpartition(":")
        return self.ops[name].output_desc[int(place)]

    def _tell(self, old: Any, new: Any, dtype: int | None) -> None:
        """What a reader of dumps, and verification, learn from a desc goes on."""
        for name in _TOLD:
            if name in old.attr and name not in new.attr:
                new.attr[name].CopyFrom(old.attr[name])
        if dtype is not None:
            new.dtype = dtype

    def add(self, like: str) -> Any:
        """A new node, as yet empty, with a name that says what it is ``like``."""
        number = len(self.names)
        while f"{like}_{number}" in self.names:
            number += 1
        op = self.graph_def.op.add()
        op.name = f"{like}_{number}"
        self.names.add(op.name)
        self.ops[op.name] = op
        return op

    def drop(self, names: set[str]) -> None:
        """Take nodes out that nobody reads."""
        for place in reversed([place for place, op in enumerate(self.graph_def.op) if op.name in names]):
            op = self.graph_def.op[place]
            for at, reference in enumerate(op.input):
                if reference in self.readers:
                    self.readers[reference] = [each for each in self.readers[reference] if each != (op.name, at)]
            del self.ops[op.name]
            del self.graph_def.op[place]
        self.changes += len(names)


def standing(stands: Mapping[str, str], reference: str) -> str:
    """The output that has the value of another now."""
    while reference in stands:
        reference = stands[reference]
    return reference
