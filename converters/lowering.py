"""Registration of lowerings, and helpers that they share."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from graph_quant import chip
from graph_quant.destination import BFLOAT16, FLOAT16, HIFLOAT8, INT4, INT32, UINT8, Destination
from graph_quant.discovery import Index, Table, record_declaration
from graph_quant.ge import OF_ATTRIBUTE, TO_ATTRIBUTE, TO_DESC, ge_dtype_name, registration
from graph_quant.meta import NODES, RECORDS, Operator, Plan, Refusal, full
from torch._ops import OpOverload
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import DataType, Tensor, get_default_ge_graph

HALVES = {torch.float16: FLOAT16, torch.bfloat16: BFLOAT16}
PROTO_FLOAT, PROTO_UINT64 = TO_DESC["float32"], TO_DESC["uint64"]


# Parameters that TorchAir adds to the inputs and attributes of a node.
_TORCHAIR_PARAMETERS = ("dependencies", "node_name")

CONVERTERS: dict[OpOverload, Callable[..., Any]] = {}
# By the operator's full name; loaded when the operator is first lowered.
LOWERINGS: Table[Callable[..., Any]] = Table(Index("LOWERINGS"))


def converts(*overloads: OpOverload) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the decorated function as TorchAir's converter of operators without a record."""

    def register(converter: Callable[..., Any]) -> Callable[..., Any]:
        for overload in overloads:
            CONVERTERS[overload] = converter
            record_declaration("CONVERTERS", overload.name())
        return converter

    return register


def lowers(operator: str | Operator) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the decorated function as the lowering of an operator that has a record.

    The function gets the arguments it names, with GE tensors for tensors, and the call's plan as ``plan``.

    Args:
        operator: The record, or the name of the operator.

    Returns:
        The decorator.

    Examples:
        >>> @lowers("npu_gelu_mul")
        ... def lower(x: Tensor, approximate: str) -> Tensor: ...
    """

    def register(lower: Callable[..., Any]) -> Callable[..., Any]:
        record = RECORDS[full(operator)] if isinstance(operator, str) else operator
        record.check_names(lower)
        LOWERINGS[record.name] = lower
        return lower

    return register


def lowered() -> set[str]:
    """The operators that this package lowers, and not upstream."""
    return LOWERINGS.names() | NODES.names()


def one_node(node: str) -> Callable[..., Any]:
    """The lowering of an operator to one GE node; int4 operands packed in int32 are unpacked first."""
    make = getattr(ge, node)
    names = [name for name in inspect.signature(make).parameters if name not in _TORCHAIR_PARAMETERS]

    def lower(plan: Plan, **arguments: Any) -> Any:
        parameters: dict[str, Any] = {}
        for name in names:
            if name in plan.int4_arguments:
                parameters[name] = unpacked(arguments[name], arguments[name].rank)
            elif name in arguments:
                parameters[name] = arguments[name]
            elif hasattr(plan, name):
                value = getattr(plan, name)
                parameters[name] = value.ge_attr if isinstance(value, Destination) else value
        return make(**parameters)

    return lower


def converter(name: str) -> Callable[..., Any]:
    """The TorchAir converter of an operator: binds its arguments, makes its plan, and calls its lowering."""

    def convert(*args: Any, meta_outputs: Any = None, **kwargs: Any) -> Any:  # noqa: ARG001
        record = RECORDS[name]
        values = record.bind(args, kwargs)
        plan = record.plan([spec(value) for value in values])
        lowering = LOWERINGS.get(name)
        if lowering is not None:
            return record.call(lowering, plan, values)
        return one_node(NODES[name])(plan, **dict(zip(record.arguments, values, strict=True)))

    return convert


def by_name(operator: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A decomposition that calls ``function`` by argument names, as references are called."""

    def decompose(*args: Any, **kwargs: Any) -> Any:
        record = RECORDS[full(operator)]
        values = record.bind(args, kwargs)
        return record.call(function, record.plan(values), values)

    return decompose


def or_upstream(ours: Callable[..., Any], upstream: Callable[..., Any] | None) -> Callable[..., Any]:
    """``ours``; on a device of another chip than A2 and A3, calls that it refuses go to ``upstream``."""
    if upstream is None:
        return ours

    @functools.wraps(ours)
    def choose(*args: Any, **kwargs: Any) -> Any:
        try:
            return ours(*args, **kwargs)
        except Refusal:
            if chip.leaves_refused_calls_to_upstream():
                return upstream(*args, **kwargs)
            raise

    return choose


def spec(value: Any) -> Any:
    """The fake tensor of a GE tensor, also in lists: the rules of ``graph_quant.meta`` work on those."""
    if isinstance(value, (list, tuple)):
        return [spec(item) for item in value]
    return value.meta if isinstance(value, Tensor) else value


def stored(y: Tensor, destination: Destination, leading: Sequence[int]) -> Tensor:
    """A quantised GE tensor as torch stores it: unchanged, int4 packed into int32, or HiFloat8 in uint8.

    ``leading`` are the dimensions before the last; 0 copies one from the input.
    """
    y.desc.dtype = destination.ge_desc
    if destination is HIFLOAT8:
        bits = ge.Bitcast(y, type=UINT8.ge_attr)
        bits.desc.dtype = UINT8.ge_desc
        return bits
    if not destination.is_packed:
        return y
    # 0 copies a dimension of the input and -1 is inferred, so that one constant works for every shape. Bitcast
    # to a type eight times as wide then removes the last dimension.
    eights = ge.Reshape(y, [*leading, -1, destination.packing])
    eights.desc.dtype = destination.ge_desc
    packed = ge.Bitcast(eights, type=INT32.ge_attr)
    packed.desc.dtype = INT32.ge_desc
    return packed


def unpacked(x: Tensor, rank: int) -> Tensor:
    """The int4 elements of an int32 tensor, at eight times the width."""
    eights = ge.Bitcast(x, type=INT4.ge_attr)
    eights.desc.dtype = INT4.ge_desc
    elements = ge.Reshape(eights, [0] * (rank - 1) + [-1])
    elements.desc.dtype = INT4.ge_desc
    return elements


def absent(dtype: str) -> Tensor:
    """An empty tensor, which stands for an omitted list input."""
    nothing = ge.Fill([0], ge.Const(0, dtype=TO_ATTRIBUTE[dtype]))
    nothing.desc.dtype = TO_DESC[dtype]
    return nothing


def as_float(x: Tensor) -> Tensor:
    """``x`` widened to float32, which is exact."""
    widened = ge.Cast(x, dst_type=DataType.DT_FLOAT)
    widened.desc.dtype = PROTO_FLOAT
    return widened


def cast_to(x: Tensor, dtype: torch.dtype) -> Tensor:
    """``x`` converted to float16 or bfloat16, rounded half to even."""
    target = HALVES[dtype]
    converted = ge.Cast(x, dst_type=target.ge_attr)
    converted.desc.dtype = target.ge_desc
    return converted


# Dtypes that hold every value of another, the narrowest first.
_WIDER = {
    "bool": ("uint8", "int8", "int32", "int64", "float16", "float32"),
    "uint8": ("int16", "int32", "int64", "float16", "float32"),
    "int8": ("int16", "int32", "int64", "float16", "float32"),
    "int16": ("int32", "int64", "float32"),
    "int32": ("int64",),
    "bfloat16": ("float32",),
    "float16": ("float32",),
}


def in_type(dtype: torch.dtype | int, *values: Any) -> Any:
    """Convert tensors by Cast, and numbers to constants, to one dtype."""
    target = TO_ATTRIBUTE[ge_dtype_name(dtype)] if isinstance(dtype, torch.dtype) else int(dtype)
    converted = [
        (value if value.dtype == target else ge.Cast(value, dst_type=target))
        if isinstance(value, Tensor)
        else ge.Const(value, dtype=target)
        for value in values
    ]
    return converted if len(converted) > 1 else converted[0]


def taken_in(op_type: str, dtype: int) -> int:
    """A dtype that a node type supports for its first input and that holds every value of ``dtype``."""
    registered = registration(op_type)
    assert registered is not None, op_type
    allowed, name = registered.inputs[0].dtypes, OF_ATTRIBUTE[int(dtype)]
    if not allowed or name in allowed:
        return int(dtype)
    wider = next((word for word in _WIDER.get(name, ()) if word in allowed), None)
    if wider is None:
        raise NotImplementedError(f"GE's {op_type} takes {', '.join(sorted(allowed))}, not {name}: cast before it")
    return TO_ATTRIBUTE[wider]


def computed(op_type: str, dtype: int, *values: Any, **attributes: Any) -> Tensor:
    """A node computed in a dtype that GE registers for it, with the result cast back to ``dtype``."""
    inner = taken_in(op_type, dtype)
    operands = [in_type(inner, value) for value in values]
    result: Tensor = getattr(ge, op_type)(*operands, **attributes)
    return result if inner == dtype else in_type(dtype, result)  # type: ignore[no-any-return]


def swapped(x: Tensor, rank: int, one: int, other: int) -> Tensor:
    """``x`` with two of its dimensions exchanged."""
    order = list(range(rank))
    order[one], order[other] = order[other], order[one]
    exchanged = ge.Transpose(x, order)
    exchanged.desc.dtype = x.desc.dtype
    return exchanged


def swapped_last_two(x: Tensor, rank: int) -> Tensor:
    """``x`` with its last two dimensions exchanged."""
    return swapped(x, rank, rank - 2, rank - 1)


def is_static(shape: Sequence[int | torch.SymInt]) -> bool:
    """Whether every size is known when the graph is built."""
    return all(isinstance(size, int) for size in shape)


def shape_of(x: Tensor) -> Any:
    """The shape of ``x`` as a node's input: a constant where it is known when the graph is built."""
    return list(x.symsize) if is_static(x.symsize) else run_time_shape(x)


def run_time_shape(x: Tensor) -> Tensor:
    """The shape of ``x`` as a node of int32."""
    shape = ge.Shape(x)
    shape.desc.dtype = INT32.ge_desc
    return shape


def constant_of(tensor: Tensor, index: int) -> bytes:
    """The bytes of the constant at input ``index`` of the node of ``tensor``; empty where it is not a constant."""
    name = tensor.node.input[index].rpartition(":")[0]
    return next((op.attr["value"].t.data for op in get_default_ge_graph().op if op.name == name), b"")


def producer(tensor: Tensor) -> Tensor | None:
    """The first input of the node that computes ``tensor``."""
    if not tensor.node.input:
        return None
    name, _, index = tensor.node.input[0].rpartition(":")
    node = next((op for op in get_default_ge_graph().op if op.name == name), None)
    return None if node is None else Tensor(node, int(index))
