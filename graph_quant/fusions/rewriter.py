"""Inserts the nodes that replace a match, with what later steps read of a node: its value's metadata and its source."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch._guards import detect_fake_mode
from torch.fx import Graph, Node
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.fx.node import map_arg

from .record import NotFusedError

# What a node says of the Python code that it comes from.
_SOURCE_KEYS = ("stack_trace", "nn_module_stack", "source_fn_stack", "from_node", "seq_nr", "original_aten")

SPLITS = (torch.ops.aten.split.Tensor, torch.ops.aten.split_with_sizes.default)
# Their results share memory with their input, which their schemas do not say.
UNSAFE_VIEWS = (torch.ops.aten._unsafe_view.default,)


class Rewriter:
    """Inserts nodes into a graph before a node, and replaces nodes by them."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.order = {node: index for index, node in enumerate(graph.nodes)}
        values = [node.meta["val"] for node in graph.nodes if node.op == "placeholder" and "val" in node.meta]
        self._mode = detect_fake_mode(values)
        self._source: Node | None = None
        self._inserted: list[Node] = []
        self.replaced: list[tuple[str, str]] = []  # names of replaced nodes, and of those that replace them

    @contextmanager
    def before(self, node: Node, source: Node) -> Iterator[None]:
        """Insert before ``node``; new nodes get the source of ``source``. What an error leaves behind is erased."""
        self._source, self._inserted = source, []
        try:
            with self.graph.inserting_before(node):
                yield
        except BaseException:
            for inserted in reversed(self._inserted):
                self.graph.erase_node(inserted)
                del self.order[inserted]
            raise
        finally:
            self._source = None

    @contextmanager
    def after(self, node: Node) -> Iterator[None]:
        """Insert behind ``node``; new nodes get its source."""
        with self.before(node.next, node):
            yield

    def call(self, target: Any, *args: Any, **kwargs: Any) -> Node:
        """Insert a call; its metadata is inferred, so that the operator's rules are checked."""
        assert self._source is not None
        values = map_arg((args, kwargs), lambda node: node.meta["val"])
        with self._mode if self._mode is not None else torch.no_grad():
            value = target(*values[0], **values[1])
        node = self.graph.call_function(target, args, kwargs)
        node.meta.update({key: self._source.meta[key] for key in _SOURCE_KEYS if key in self._source.meta})
        node.meta["val"] = value
        if isinstance(value, torch.Tensor):
            node.meta["tensor_meta"] = torch.fx.passes.shape_prop._extract_tensor_metadata(value)
        self._inserted.append(node)
        self.order[node] = self.order[self._source]
        return node

    def result(self, call: Node, index: int) -> Node:
        """Insert the selection of one result of a call."""
        return self.call(operator.getitem, call, index)

    def flatten_rows(self, node: Node) -> Node:
        """Insert a reshape to two dimensions that keeps the last one, unless there are two."""
        value = node.meta["val"]
        if value.dim() == 2:
            return node
        return self.call(torch.ops.aten.view.default, node, [-1, value.size(-1)])

    def merge_last(self, node: Node) -> Node:
        """Insert a reshape that merges the last two of four dimensions."""
        value = node.meta["val"]
        sizes = self._sizes(node, 2)
        return self.call(torch.ops.aten.reshape.default, node, [*sizes, value.size(2) * value.size(3)])

    def expand_batch(self, table: Node, like: Node) -> Node:
        """Insert an expansion of the first dimension of ``table`` to that of ``like``, if they differ."""
        value, batch = table.meta["val"], like.meta["val"].size(0)
        if statically_known_true(value.size(0) == batch):
            return table
        size = batch if isinstance(batch, int) else self.call(torch.ops.aten.sym_size.int, like, 0)
        return self.call(torch.ops.aten.expand.default, table, [size, *[-1] * (value.dim() - 1)])

    def view_like(self, node: Node, like: Node, dims: int | None = None) -> Node:
        """Insert a reshape to the first ``dims`` sizes of ``like``, by default to all."""
        wanted = like.meta["val"].shape[:dims]
        if node.meta["val"].dim() == len(wanted):
            return node
        return self.call(torch.ops.aten.view.default, node, self._sizes(like, len(wanted)))

    def _sizes(self, like: Node, dims: int) -> list[Any]:
        sizes = like.meta["val"].shape[:dims]
        symbolic = [index for index, size in enumerate(sizes) if not isinstance(size, int)]
        if len(symbolic) == 1:
            return [-1 if index in symbolic else size for index, size in enumerate(sizes)]
        return [
            self.call(torch.ops.aten.sym_size.int, like, index) if index in symbolic else size
            for index, size in enumerate(sizes)
        ]

    def replace(self, old: Node, new: Node) -> None:
        """Let all readers of ``old`` read ``new``; both must have the same dtype and sizes."""
        for what, before, after in (
            ("dtype", old.meta["val"].dtype, new.meta["val"].dtype),
            ("rank", old.meta["val"].dim(), new.meta["val"].dim()),
        ):
            if before != after:
                raise NotFusedError(f"the {what} of the result would be {after} instead of {before}")
        sizes = list(zip(old.meta["val"].shape, new.meta["val"].shape, strict=True))
        if any(isinstance(one, int) and isinstance(other, int) and one != other for one, other in sizes):
            raise NotFusedError(f"the sizes would be {new.meta['val'].shape} instead of {old.meta['val'].shape}")
        old.replace_all_uses_with(new)
        self.replaced.append((old.name, new.name))

    def replace_results(self, old: Node, new: Node) -> None:
        """Let all selections of a result of ``old`` select that of ``new``."""
        for result in readers(old):
            if result.users:
                self.replace(result, self.result(new, int(result.args[1])))  # type: ignore[arg-type]

    def require_before(self, node: Node, what: str, position: Node) -> None:
        """Raise NotFusedError unless ``node`` is computed before ``position``."""
        if self.order[node] > self.order[position]:
            raise NotFusedError(f"{what} is computed after {position.name}")


def require_rows(node: Node) -> None:
    """Raise NotFusedError if ``node`` has no elements, or may have none at run time: some nodes refuse that in GE."""
    shape = node.meta["val"].shape
    if any(statically_known_true(size == 0) for size in shape):
        raise NotFusedError("there are no rows, which the fused operator refuses in graphs")
    if not all(statically_known_true(size > 0) for size in shape):
        raise NotFusedError(f"there may be no rows at run time, which the fused operator refuses in graphs: {shape}")


def slice_start(node: Node, dim: int) -> int | None:
    """The first index of a slice of ``dim`` whose elements are neighbours; None for anything else."""
    start, step = _slice_start_and_step(node, dim)
    return start if step == 1 else None


def _slice_start_and_step(node: Node, dim: int) -> tuple[int | None, int]:
    if node.target is not torch.ops.aten.slice.Tensor:
        return None, 1
    defaults: list[Any] = [None, 0, None, None, 1]
    arguments: list[Any] = [*node.args, *defaults[len(node.args) :]]
    own_dim, start, step = arguments[1], arguments[2] or 0, arguments[4]
    rank = node.meta["val"].dim()
    is_known = own_dim % rank == dim % rank and isinstance(start, int) and start >= 0
    return start if is_known else None, step


def without_full_slices(node: Node) -> Node:
    """The tensor of which ``node`` is all, behind slices that leave nothing out, such as ``x[:, :, None]`` has them."""
    while node.target is torch.ops.aten.slice.Tensor:
        source: Any = node.args[0]
        sizes = zip(node.meta["val"].shape, source.meta["val"].shape, strict=True)
        if not all(statically_known_true(one == other) for one, other in sizes):
            break
        node = source
    return node


class Part(NamedTuple):
    """Every ``step``-th of the last elements of ``source``, ``size`` of them from ``start`` on."""

    source: Node
    start: int
    size: Any
    step: int


def part_of_last(node: Any) -> Part | None:
    """The part of another tensor along the last dimension that ``node`` is: a slice or a result of a split."""
    if not isinstance(node, Node):
        return None
    size, arguments = node.meta["val"].size(-1), node.args
    start, step = _slice_start_and_step(node, -1)
    if start is not None:
        return Part(arguments[0], start, size, step)  # type: ignore[arg-type]
    split: Any = arguments[0] if node.target is operator.getitem else None
    if split is None or split.target not in SPLITS:
        return None
    dim = split.args[2] if len(split.args) > 2 else 0
    parts, rank = split.meta["val"], node.meta["val"].dim()
    start = sum(part.size(dim) for part in parts[: arguments[1]])
    return Part(split.args[0], start, size, 1) if dim % rank == rank - 1 and isinstance(start, int) else None


def halves_of_last(gate: Any, up: Any) -> Node:
    """The tensor whose first half of the last dimension is ``gate`` and whose second half is ``up``."""
    first, second = part_of_last(gate), part_of_last(up)
    if first is None or second is None or first.source is not second.source:
        raise NotFusedError(
            "gate and up are not the halves of one tensor: graph_quant.nn.merge_linears_ joins the two linears"
        )
    source, half = first.source, first.size
    is_halves = (first, second) == (Part(source, 0, half, 1), Part(source, half, half, 1))
    if not is_halves or source.meta["val"].size(-1) != 2 * half:
        raise NotFusedError("gate is not the first half of the tensor, or up not the second one")
    return source


def readers(node: Node) -> list[Node]:
    """The nodes that read ``node``, in no particular order."""
    return list(node.users)


def describe_readers(nodes: Sequence[Node]) -> str:
    """Name up to three nodes with their targets, and the module that each belongs to."""
    texts = [f"{node.name} ({_module(node) or node.target})" for node in nodes[:3]]
    return ", ".join(texts) + (f" and {len(nodes) - 3} more" if len(nodes) > 3 else "")


def _module(node: Node) -> str:
    from ..ge import module_path

    return str(module_path(node.meta) or "")
