"""TorchAir's view optimisation, without guards: one graph for all sizes, and correct for all of them.

It defers views and materialises each as one Reshape and Transpose where an operator needs it. Upstream it compares
sizes by value: a graph traced with 7 tokens is compiled again when the number of tokens equals the number of heads, and
strides are sorted by the traced sizes. Here sizes are equal where their expressions are. Upstream also treats every
reshape as a view, even that of a transposed tensor, which copies: the transposition was lost, and the result wrong.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cmp_to_key
from typing import Any

from ..passes.hook import parse_size
from ..passes.sizes import number

MODULE = "torchair._ge_concrete_graph.continguous"
RESHAPES = ("aten.view.default", "aten.reshape.default")


def patch(materialize: Callable[[Any, Any], Any], decide: Callable[[Callable[..., bool]], Callable[..., bool]]) -> None:
    """Let TorchAir compare sizes by their expressions; ``materialize`` emits views, ``decide`` tests for them."""
    module, users = sys.modules[MODULE], sys.modules[f"{MODULE}_utils"]
    vars(module)["get_sym_node_from_graph"] = _sym_node
    for user in (module, users):
        vars(user)["optimize_view"] = materialize
    vars(users)["set_meta_tensor_info"] = _contiguous_meta
    vars(users)["is_view_case"] = decide(users.is_view_case)


def is_view_reshape(source: Any, size: Any) -> bool:
    """Whether a reshape is a view, and copies nothing."""
    import torch

    view = source.view_faketensor.meta
    with view.fake_mode:
        result = torch.ops.aten.reshape.default(view, getattr(size, "meta", size))
    return bool(result.untyped_storage()._cdata == view.untyped_storage()._cdata)


def are_equal(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Whether sizes are equal for all values of the symbols."""
    return len(one) == len(other) and all(map(_equal, one, other))


def _equal(one: Any, other: Any) -> bool:
    return bool(_expression(one) == _expression(other))


def _expression(size: Any) -> Any:
    return size if isinstance(size, int) else size.node.expr


def materialize_view(source: Any, graph: Any) -> Any:
    """Emit the deferred views of ``source``, once per graph."""
    view, meta = source.view_faketensor, source.meta
    shape, stride = list(view.meta.size()), list(view.meta.stride())
    stored = sys.modules[MODULE].gen_contiguous_stride(view.srcshape)
    if are_equal(shape, view.srcshape) and are_equal(stride, stored):
        return source
    nodes = vars(graph).setdefault("view_operator_map", {})
    if (source, view.meta) not in nodes:
        result = _emit_view(source, list(view.srcshape), shape, stride, graph)
        nodes[(source, view.meta)] = result
        result.set_meta(meta)
    return nodes[(source, view.meta)]


def _emit_view(source: Any, source_shape: list[Any], shape: list[Any], stride: list[Any], graph: Any) -> Any:
    module = sys.modules[MODULE]
    axes = [axis for axis, size in enumerate(shape) if not _equal(size, 1) and not _equal(stride[axis], 0)]

    def compare(one: int, other: int) -> int:
        return _compare_strides(stride[other], stride[one])

    order = sorted(axes, key=cmp_to_key(compare))
    if order == axes:
        return module._build_reshape_node(source, source, shape, graph)
    result = source
    if not are_equal([shape[axis] for axis in order], source_shape):
        result = module._build_reshape_node(source, source, [shape[axis] for axis in order], graph)
    result = module.ge.Transpose(result, [order.index(axis) for axis in axes])
    return result if len(axes) == len(shape) else module._build_reshape_node(result, source, shape, graph)


def _compare_strides(one: Any, other: Any) -> int:
    """Compare two strides for sorting. In dense memory one is a multiple of the other, for all values of the symbols.

    Where the expressions do not show that (a width, and a quarter of it rounded down), the traced sizes decide.
    """
    if _equal(one, other):
        return 0
    if _is_multiple(one, other) or _is_multiple(other, one):
        return 1 if _is_multiple(one, other) else -1
    hint = sys.modules[MODULE].hint_int
    return int(hint(one)) - int(hint(other))


def _is_multiple(one: Any, other: Any) -> bool:
    sizes = [number(size) if isinstance(size, int) else parse_size(size.node.expr) for size in (one, other)]
    quotient = sizes[0].divided(sizes[1])
    return quotient is not None and all(count > 0 and count.denominator == 1 for _, count in quotient.terms)


def _sym_node(source: Any, size: Any, graph: Any) -> Any:
    """Return the GE tensor of a symbolic size: recorded with the view, or read from the shape of its source."""
    module, view = sys.modules[MODULE], source.view_faketensor
    if str(size) in view.mapsym:
        name, _, index = view.mapsym[str(size)].rpartition(":")
        return module.Tensor(next(op for op in reversed(graph.op) if op.name == name), int(index))
    for axis, candidate in enumerate(view.srcshape):
        if _equal(candidate, size):
            return module.ge.Gather(module.ge.Shape(source, dtype=module.DataType.DT_INT32), axis)
    raise AssertionError(f"the size {size} of a view is not among those of its tensor")


def _contiguous_meta(argument: Any) -> Any:
    shape = argument.symsize
    stride = sys.modules[MODULE].gen_contiguous_stride(shape)
    meta = argument.meta
    return meta if are_equal(list(meta.stride()), stride) else meta.as_strided(shape, stride, 0)
