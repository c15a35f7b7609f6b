"""Unbacked sizes: those that depend on data, from nonzero and item.

TorchAir tests whether results are empty, which PyTorch cannot decide for such sizes. It leaves comparisons of sizes,
and ``int`` of computed sizes, to Python. It cannot return a number that was read from a tensor. The last is refused
with a workaround; the others are patched here.
"""

from __future__ import annotations

import math
import operator
import struct
from types import ModuleType
from typing import Any

import torch
from graph_quant.converters.lowering import constant_of, producer
from graph_quant.converters.unsupported import refuse_size_function
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import DataType, Tensor

_COMPARISONS = {
    operator.eq: ge.Equal,
    operator.ne: ge.NotEqual,
    operator.lt: ge.Less,
    operator.le: ge.LessEqual,
    operator.gt: ge.Greater,
    operator.ge: ge.GreaterEqual,
}
_MIN_MAX = {torch.sym_min: ge.Minimum, torch.sym_max: ge.Maximum}
_HALF = struct.pack("<f", 0.5)
# Assertions about sizes need no nodes: kernels refuse wrong sizes themselves.
_ASSERTIONS = (
    torch.ops.aten._assert_scalar.default,
    torch.ops.aten.sym_constrain_range.default,
    torch.ops.aten.sym_constrain_range_for_size.default,
)


def patch(converter: ModuleType, compiler: ModuleType) -> None:
    """Let TorchAir build graphs with unbacked sizes."""
    vars(converter)["get_used_sym_value_mapping"] = _map_or_refuse(converter.get_used_sym_value_mapping)
    known = compiler._is_binary_operator
    of_sizes = {*_COMPARISONS, math.trunc}
    vars(compiler)["_is_binary_operator"] = lambda target: target in of_sizes or known(target)
    for target, make in (*_COMPARISONS.items(), *_MIN_MAX.items()):
        converter.register_fx_node_ge_converter(target)(_of_sizes(make))
    converter.register_fx_node_ge_converter(math.trunc)(_truncate)
    converter.register_fx_node_ge_converter(torch.sym_ite)(_of_sizes(ge.SelectV2))
    for assertion in _ASSERTIONS:
        converter.register_fx_node_ge_converter(assertion)(_nothing)


def _map_or_refuse(mapping: Any) -> Any:
    def known(of_inputs: Any, meta: Any) -> Any:
        try:
            return mapping(of_inputs, meta)
        except AssertionError:
            raise NotImplementedError(
                "a graph cannot return a number that it reads from a tensor: "
                "return the tensor, and call item() outside of the compiled function"
            ) from None

    return known


def _of_sizes(make: Any) -> Any:
    def convert(*sizes: Any, meta_outputs: Any = None) -> Any:  # noqa: ARG001
        return make(*(size if isinstance(size, Tensor) else ge.Const(size, dtype=DataType.DT_INT64) for size in sizes))

    return convert


def _nothing(*args: Any, meta_outputs: Any = None, **kwargs: Any) -> None:  # noqa: ARG001
    return None


def _truncate(number: Tensor, meta_outputs: Any = None) -> Tensor:  # noqa: ARG001
    """``int`` of the square root of a size, corrected in integers: fractions of sizes are float32 in a graph."""
    size = _find_radicand(number)
    if size is None:
        raise NotImplementedError(refuse_size_function("trunc"))
    root = ge.Cast(number, dst_type=DataType.DT_INT64)
    root = ge.Sub(root, _as_size(ge.Greater(ge.Mul(root, root), size)))
    next_root = ge.Add(root, ge.Const(1, dtype=DataType.DT_INT64))
    return ge.Add(root, _as_size(ge.LessEqual(ge.Mul(next_root, next_root), size)))


def _as_size(condition: Tensor) -> Tensor:
    return ge.Cast(condition, dst_type=DataType.DT_INT64)


def _find_radicand(number: Tensor) -> Tensor | None:
    """The size whose square root a tensor is."""
    base = producer(number) if number.node.type == "Pow" and constant_of(number, 1) == _HALF else None
    return producer(base) if base is not None and base.node.type == "Cast" else None
