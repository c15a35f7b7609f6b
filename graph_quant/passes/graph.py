"""A GE graph that passes rewrite: its def-use chains, and what must not be touched."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ..ge import CONST_TYPES, INPUT_TYPES, OUTPUT_TYPE, written_inputs
from .inference import Inferred, InputInfo, ShapeInference
from .sizes import Sizes

# What exists before anything is computed: an output of the graph must not become one of these.
_STORED_TYPES = {*INPUT_TYPES, *CONST_TYPES, "ConstPlaceHolder", "Variable"}
# Nodes whose results may share the memory of their first input.
VIEW_TYPES = frozenset((
    "Reshape", "Unsqueeze", "UnsqueezeV3", "Squeeze", "SqueezeV3", "Bitcast", "Identity", "ExpandDims", "Flatten",
    "FlattenV2", "Transpose", "TransposeD", "BroadcastTo", "Expand", "AsStrided", "StridedSlice", "StridedSliceV2",
    "Slice", "Unpack", "SplitV", "Real", "Imag",
))  # fmt: skip
# Attributes of a desc that say which FX node a tensor comes from. Dumps and verification read them.
_ORIGIN_ATTRIBUTES = ("_fx_tensor_name", "_meta")


class Reader(NamedTuple):
    """A use of an output: the name of the node that reads it, and the position of the input."""

    node: str
    position: int


class Graph:
    """The nodes of a GraphDef by name. An output is written as in GraphDefs: ``node:index``.

    Nodes with control edges are ``pinned``: passes do not change them, unless the graph is built with ``pinned=False``.
    """

    def __init__(
        self, graph_def: Any, input_info: Mapping[str, InputInfo] | None = None, *, pinned: bool = True
    ) -> None:
        self.graph_def = graph_def
        self.ops: dict[str, Any] = {op.name: op for op in graph_def.op}
        self.readers: dict[str, list[Reader]] = {}
        self.pinned: set[str] = set()
        self._pins = pinned
        # What the current pass did: outputs that it replaced, nodes that it changed, and the number of changes.
        self.replaced: dict[str, str] = {}
        self.changed: set[str] = set()
        # All replacements so far.
        self.replacements: dict[str, str] = {}
        self.changes = 0
        self.constants: dict[tuple[Any, ...], str] = {}
        self.names = set(self.ops)
        for op in graph_def.op:
            self._add_readers(op)
        self.inference = ShapeInference(self.ops, input_info or {})
        self.written = self._find_written()

    def _add_readers(self, op: Any) -> None:
        for index, reference in enumerate(op.input):
            if reference.endswith(":-1"):
                if self._pins:
                    self.pinned.update((op.name, reference[:-3]))
            elif reference:
                self.readers.setdefault(reference, []).append(Reader(op.name, index))

    def _find_written(self) -> set[str]:
        """Outputs whose memory a node overwrites that is not on the path from the output to its memory."""
        writers: dict[str, set[str]] = {}
        for op in self.ops.values():
            for reference in written_inputs(op).values():
                writers.setdefault(self._find_base(reference)[0], set()).add(op.name)
        if not writers:
            return set()
        results = [f"{op.name}:{index}" for op in self.ops.values() for index in range(len(op.output_desc))]
        bases = ((result, *self._find_base(result)) for result in results)
        return {result for result, base, passed in bases if not writers.get(base, set()) <= passed}

    def _find_base(self, reference: str) -> tuple[str, set[str]]:
        """The output that owns the memory of ``reference``, and the nodes between the two that write to it."""
        writers: set[str] = set()
        while True:
            op = self.producer(reference)
            written = written_inputs(op).get(self.output_desc(reference).name)
            if written is not None:
                writers.add(op.name)
                reference = written
            elif op.type in VIEW_TYPES and op.input[0]:
                reference = op.input[0]
            else:
                return reference, writers

    def nodes_of_type(self, *types: str) -> Iterator[Any]:
        """The nodes of some types that passes may change. The graph may be changed while iterating."""
        candidates = [op for op in self.ops.values() if op.type in types and op.name not in self.pinned]
        return (op for op in candidates if op.name in self.ops)

    def read_nodes(self) -> set[str]:
        """The nodes with at least one output that is read."""
        return {reference.rpartition(":")[0] for reference, readers in self.readers.items() if readers}

    def producer(self, reference: str) -> Any:
        """The node that computes an output."""
        return self.ops[reference.rpartition(":")[0]]

    def inferred(self, reference: str) -> Inferred:
        """What is inferred of an output."""
        return self.inference.infer(reference)

    def shape(self, reference: str) -> Sizes | None:
        """The shape of an output; None where it is not known."""
        return self.inferred(reference).shape

    def is_output(self, reference: str) -> bool:
        """Whether the graph returns an output."""
        return any(self.ops[reader.node].type == OUTPUT_TYPE for reader in self.readers.get(reference, ()))

    def may_replace(self, old: str, new: str) -> bool:
        """Whether readers of ``old`` may read ``new``, which is equal.

        Not where the memory of either is overwritten, nor where an output of the graph would become an input, a
        constant or another output.
        """
        if old == new or self.producer(old).name in self.pinned or old in self.written or new in self.written:
            return False
        return not (self.is_output(old) and (self.is_output(new) or self.producer(new).type in _STORED_TYPES))

    def replace(self, old: str, new: str) -> bool:
        """Let every reader of ``old`` read ``new``, which is equal to it; False where that is not allowed."""
        new = resolve_replacement(self.replacements, new)
        if not self.may_replace(old, new):
            return False
        readers = self.readers.pop(old, [])
        for reader in readers:
            self._set_input(reader, new)
        self.changes += bool(readers)
        self.replaced[old] = self.replacements[old] = new
        self._copy_origin(self.output_desc(old), self.output_desc(new), self.inferred(new).desc)
        return True

    def set_input(self, op: Any, index: int, new: str) -> None:
        """Let one input of a node read another output."""
        if op.input[index] != new:
            self.readers[op.input[index]].remove(Reader(op.name, index))
            self.connect(op, index, new)

    def connect(self, op: Any, index: int, new: str) -> None:
        """Let an unconnected input read an output."""
        self._set_input(Reader(op.name, index), new)
        self.changed.add(op.name)
        self.changes += 1

    def _set_input(self, reader: Reader, new: str) -> None:
        self.ops[reader.node].input[reader.position] = new
        self.readers.setdefault(new, []).append(reader)

    def output_desc(self, reference: str) -> Any:
        """The desc of an output."""
        name, _, index = reference.rpartition(":")
        return self.ops[name].output_desc[int(index)]

    def _copy_origin(self, old: Any, new: Any, dtype: int | None) -> None:
        """Copy to a desc what dumps and verification read from the desc that it replaces."""
        for name in _ORIGIN_ATTRIBUTES:
            if name in old.attr and name not in new.attr:
                new.attr[name].CopyFrom(old.attr[name])
        if dtype is not None:
            new.dtype = dtype

    def add(self, like: str) -> Any:
        """Add an empty node with a unique name that starts with ``like``."""
        number = len(self.names)
        while f"{like}_{number}" in self.names:
            number += 1
        op = self.graph_def.op.add()
        op.name = f"{like}_{number}"
        self.names.add(op.name)
        self.ops[op.name] = op
        return op

    def drop(self, names: set[str]) -> None:
        """Remove nodes without readers."""
        for position in reversed([position for position, op in enumerate(self.graph_def.op) if op.name in names]):
            op = self.graph_def.op[position]
            for index, reference in enumerate(op.input):
                if reference in self.readers:
                    uses = self.readers[reference]
                    self.readers[reference] = [use for use in uses if use != (op.name, index)]
            del self.ops[op.name]
            del self.graph_def.op[position]
        self.changes += len(names)


def resolve_replacement(replacements: Mapping[str, str], reference: str) -> str:
    """The output that an output was replaced by, through all replacements."""
    while reference in replacements:
        reference = replacements[reference]
    return reference
