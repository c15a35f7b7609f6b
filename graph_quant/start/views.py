"""TorchAir's view optimisation, without guards: one graph for all sizes, and right for all of them.

It puts views off and states each as one Reshape and Transpose where an operator needs it. Upstream it compares sizes
by value: a graph traced with 7 tokens is compiled again for as many tokens as there are heads, and strides are put in
order by the sizes that were traced. Here sizes are equal where their expressions are. And it takes every reshape for a
view, also one of a transposed tensor, which copies: the transposition was lost, and with it the right answer.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cmp_to_key
from typing import Any

from ..passes.hook import parse_size
from ..passes.sizes import number

HOME = "torchair._ge_concrete_graph.continguous"
RESHAPES = ("aten.view.default", "aten.reshape.default")


def mend(state: Callable[[Any, Any], Any], decide: Callable[[Callable[..., bool]], Callable[..., bool]]) -> None:
    """Let TorchAir compare sizes by their expressions; ``state`` states views, ``decide`` tells what is one."""
    home, users = sys.modules[HOME], sys.modules[f"{HOME}_utils"]
    vars(home)["get_sym_node_from_graph"] = _sym_node
    for module in (home, users):
        vars(module)["optimize_view"] = state
    vars(users)["set_meta_tensor_info"] = _contiguous_meta
    vars(users)["is_view_case"] = decide(users.is_view_case)


def keeps_memory(given: Any, size: Any) -> bool:
    """Whether a reshape copies nothing."""
    import torch

    view = given.view_faketensor.meta
    with view.fake_mode:
        result = torch.ops.aten.reshape.default(view, getattr(size, "meta", size))
    return bool(result.untyped_storage()._cdata == view.untyped_storage()._cdata)


def same(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Whether sizes are equal whatever the symbols are."""
    return len(one) == len(other) and all(map(_equal, one, other))


def _equal(one: Any, other: Any) -> bool:
    return bool(_expression(one) == _expression(other))


def _expression(size: Any) -> Any:
    return size if isinstance(size, int) else size.node.expr


def put_view(given: Any, graph: Any) -> Any:
    """State the views that were put off before an operator reads ``given``."""
    view, meta = given.view_faketensor, given.meta
    shape, stride = list(view.meta.size()), list(view.meta.stride())
    stored = sys.modules[HOME].gen_contiguous_stride(view.srcshape)
    if same(shape, view.srcshape) and same(stride, stored):
        return given
    made = vars(graph).setdefault("view_operator_map", {})
    if (given, view.meta) not in made:
        result = _stated(given, list(view.srcshape), shape, stride, graph)
        made[(given, view.meta)] = result
        result.set_meta(meta)
    return made[(given, view.meta)]


def _stated(given: Any, source: list[Any], shape: list[Any], stride: list[Any], graph: Any) -> Any:
    home = sys.modules[HOME]
    axes = [axis for axis, size in enumerate(shape) if not _equal(size, 1) and not _equal(stride[axis], 0)]

    def compared(one: int, other: int) -> int:
        return _compared(stride[other], stride[one])

    order = sorted(axes, key=cmp_to_key(compared))
    if order == axes:
        return home._build_reshape_node(given, given, shape, graph)
    result = given
    if not same([shape[axis] for axis in order], source):
        result = home._build_reshape_node(given, given, [shape[axis] for axis in order], graph)
    result = home.ge.Transpose(result, [order.index(axis) for axis in axes])
    return result if len(axes) == len(shape) else home._build_reshape_node(result, given, shape, graph)


def _compared(one: Any, other: Any) -> int:
    """Puts strides in order. Those of memory without gaps are multiples of each other, whatever the symbols are.

    Where the expressions do not show it (a width, and a fourth of it rounded down), the traced sizes do.
    """
    if _equal(one, other):
        return 0
    if _is_multiple(one, other) or _is_multiple(other, one):
        return 1 if _is_multiple(one, other) else -1
    hint = sys.modules[HOME].hint_int
    return int(hint(one)) - int(hint(other))


def _is_multiple(one: Any, other: Any) -> bool:
    sizes = [number(each) if isinstance(each, int) else parse_size(each.node.expr) for each in (one, other)]
    quotient = sizes[0].divided(sizes[1])
    return quotient is not None and all(count > 0 and count.denominator == 1 for _, count in quotient.terms)


def _sym_node(source: Any, size: Any, graph: Any) -> Any:
    """The GE node that has a size: noted with the view, or asked of what the view is of."""
    home, view = sys.modules[HOME], source.view_faketensor
    if str(size) in view.mapsym:
        name, _, place = view.mapsym[str(size)].rpartition(":")
        return home.Tensor(next(op for op in reversed(graph.op) if op.name == name), int(place))
    for axis, each in enumerate(view.srcshape):
        if _equal(each, size):
            return home.ge.Gather(home.ge.Shape(source, dtype=home.DataType.DT_INT32), axis)
    raise AssertionError(f"the size {size} of a view is not among those of its tensor")


def _contiguous_meta(argument: Any) -> Any:
    shape = argument.symsize
    stride = sys.modules[HOME].gen_contiguous_stride(shape)
    meta = argument.meta
    return meta if same(list(meta.stride()), stride) else meta.as_strided(shape, stride, 0)
