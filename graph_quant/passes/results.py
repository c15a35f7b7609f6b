"""The dtypes and shapes of what GE nodes compute."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from math import prod

from ..ge import OF_DESC
from .known import LONGEST, NOTHING, FedNode, Known, tells
from .sizes import ONE, Size, Sizes, number, symbol

# The integers that are followed, as struct writes them.
FORMATS = {"int64": "q", "int32": "i"}
FLOATS = ("float16", "bfloat16", "float32", "float64")
RANGES = {"int32": range(-(2**31), 2**31), "int64": range(-(2**63), 2**63)}


@tells("Const", "Constant")
def constant(call: FedNode) -> Known:
    tensor = call.op.attr["value"].t
    shape = tuple(tensor.desc.shape.dim)
    dtype = OF_DESC.get(tensor.desc.dtype)
    value = None
    if dtype in FORMATS and prod(shape) <= LONGEST:
        value = tuple(map(number, struct.unpack(f"<{prod(shape)}{FORMATS[dtype]}", tensor.data)))
    return Known(dtype, tuple(map(number, shape)), value)


@tells("Identity")
def same(call: FedNode) -> Known:
    return call["x"]


@tells("Neg", "Cumsum")
def unary(call: FedNode) -> Known:
    return Known(call["x"].dtype, call["x"].shape)


@tells("ScatterElements")
def scattered(call: FedNode) -> Known:
    return Known(call["data"].dtype, call["data"].shape)


@tells("Abs", "Cos", "Sin", "Exp", "Sqrt", "Rsqrt", "Swish", "Relu", "Sigmoid", "Tanh", "Gelu")
def unary_of_floats(call: FedNode) -> Known:
    """Of integers some of these make floats, and the amount of a complex number is none."""
    return Known(call["x"].dtype if call["x"].dtype in FLOATS else None, call["x"].shape)


@tells("LogicalNot")
def negation(call: FedNode) -> Known:
    return Known("bool", call["x"].shape)


@tells("SoftmaxV2")
def softmax(call: FedNode) -> Known:
    return Known(None if call.attribute("half_to_float") else call["x"].dtype, call["x"].shape)


@tells("Cast")
def cast(call: FedNode) -> Known:
    x, dtype = call["x"], call.dtype("dst_type")
    value = held(dtype, x.value) if x.dtype in FORMATS and dtype in FORMATS else None
    if (x.dtype, dtype) == ("int64", "int32") and any(each.symbols & call.numbers for each in value or ()):
        value = None
    return Known(dtype, x.shape, value)


def held(dtype: str | None, value: Sizes | None) -> Sizes | None:
    """The elements, unless a dtype cannot hold one of them: it wraps around, and is not followed. Sizes never do."""
    numbers = RANGES.get(dtype or "", range(0))
    return None if value is None or any((each.number or 0) not in numbers for each in value) else value


@tells("Add", "Sub", "Mul")
def arithmetic(call: FedNode) -> Known:
    one, two = call["x1"], call["x2"]
    dtype = one.dtype if one.dtype == two.dtype else None
    shape = broadcast(one.shape, two.shape)
    if dtype not in FORMATS or shape is None or not one.value or not two.value:
        return Known(dtype, shape)
    if not (_is_repeated(one.shape, shape) and _is_repeated(two.shape, shape)):
        return Known(dtype, shape)
    return Known(dtype, shape, held(dtype, _elementwise(call.op.type, one.value, two.value)))


def _is_repeated(shape: Sizes | None, whole: Sizes) -> bool:
    """Whether a shape's elements, in order and again and again, are those of the ``whole`` that it is spread over."""
    rest = list(shape or ())
    while rest and rest[0] == ONE:
        rest.pop(0)
    return tuple(rest) == whole[len(whole) - len(rest) :]


def _elementwise(kind: str, one: Sizes, two: Sizes) -> Sizes:
    length = max(len(one), len(two))
    pairs = zip(one * (length // len(one)), two * (length // len(two)), strict=True)
    if kind == "Add":
        return tuple(a + b for a, b in pairs)
    return tuple(a - b if kind == "Sub" else a * b for a, b in pairs)


@tells("RealDiv", "Maximum", "Minimum", "Pow", "Div", "FloorDiv", "FloorMod")
def binary(call: FedNode) -> Known:
    one, two = call["x1"], call["x2"]
    return Known(one.dtype if one.dtype == two.dtype else None, broadcast(one.shape, two.shape))


@tells("Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual", "LogicalAnd", "LogicalOr")
def comparison(call: FedNode) -> Known:
    return Known("bool", broadcast(call["x1"].shape, call["x2"].shape))


@tells("SelectV2")
def select(call: FedNode) -> Known:
    then, other = call["then"], call["else"]
    shape = broadcast(call["condition"].shape, broadcast(then.shape, other.shape))
    return Known(then.dtype if then.dtype == other.dtype else None, shape)


def broadcast(one: Sizes | None, two: Sizes | None) -> Sizes | None:
    """The shape of two tensors together. A symbol beside another may be 1, and nothing is known then."""
    if one is None or two is None:
        return None
    rank = max(len(one), len(two))
    pairs = zip((ONE,) * (rank - len(one)) + one, (ONE,) * (rank - len(two)) + two, strict=True)
    found: list[Size] = []
    for a, b in pairs:
        if a != b and ONE not in (a, b) and (a.number is None) == (b.number is None):
            return None
        # Beside a number that is not 1, a symbol is 1 or that number.
        found.append(b if a == ONE or (a.number is None and b != ONE) else a)
    return tuple(found)


@tells("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin")
def reduction(call: FedNode) -> Known:
    x, axes = call["x"], call["axes"].numbers
    if x.shape is None or not axes:
        return Known(x.dtype)
    reduced = {axis % len(x.shape) for axis in axes}
    if call.attribute("keep_dims", False):
        return Known(x.dtype, tuple(ONE if axis in reduced else size for axis, size in enumerate(x.shape)))
    return Known(x.dtype, tuple(size for axis, size in enumerate(x.shape) if axis not in reduced))


@tells("ConcatV2")
def concatenation(call: FedNode) -> Known:
    parts = [known for name, known in call.inputs.items() if name != "concat_dim"]
    dtype = parts[0].dtype if all(part.dtype == parts[0].dtype for part in parts) else None
    axis, shapes = call["concat_dim"].numbers, [part.shape for part in parts]
    if not axis or None in shapes:
        return Known(dtype)
    whole = [shape for shape in shapes if shape is not None]
    # Beside others, torch passes over an empty vector.
    if any(len(shape) != len(whole[0]) for shape in whole):
        return Known(dtype)
    at = axis[0] % len(whole[0])
    joined = whole[0][at]
    for shape in whole[1:]:
        joined += shape[at]
    value = None
    if dtype in FORMATS and len(whole[0]) == 1 and all(part.value is not None for part in parts):
        value = tuple(size for part in parts for size in part.value or ())
    return Known(dtype, (*whole[0][:at], joined, *whole[0][at + 1 :]), value)


@tells("StridedSliceV2")
def strided_slice(call: FedNode) -> Known:
    x = call["x"]
    masks = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
    begin, end, axes, strides = (call[name].numbers for name in ("begin", "end", "axes", "strides"))
    if x.shape is None or not axes or any(call.attribute(mask) for mask in masks):
        return Known(x.dtype)
    shape = list(x.shape)
    for place, axis in enumerate(axes):
        length = shape[axis].number
        if length is None or not begin or not end or not strides:
            shape[axis] = symbol(f"{call.op.name}[{axis}]")
        else:
            shape[axis] = number(len(range(length)[begin[place] : end[place] : strides[place]]))
    return Known(x.dtype, tuple(shape))


@tells("GatherV2", "Gather")
def gather(call: FedNode) -> Known:
    x, indices = call["x"], call["indices"]
    axis = call["axis"].numbers if call.op.type == "GatherV2" else [0]
    if x.shape is None or indices.shape is None or not axis or call.attribute("batch_dims"):
        return Known(x.dtype)
    at = axis[0] % len(x.shape)
    value, places = None, indices.numbers
    if x.value is not None and len(x.shape) == 1 and places is not None and min(places, default=0) >= 0:
        value = tuple(x.value[place] for place in places)
    return Known(x.dtype, (*x.shape[:at], *indices.shape, *x.shape[at + 1 :]), value)


@tells("MatMul", "MatMulV2", "MatMulV3", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
def matrix_product(call: FedNode) -> Known:
    one, two = call["x1"], call["x2"]
    name = "adj" if call.op.type.startswith("Batch") else "transpose"
    turned = [call.attribute(f"{name}_{each}", False) for each in ("x1", "x2")]
    same_float = one.dtype == two.dtype and one.dtype in ("float32", "float16", "bfloat16")
    return Known(one.dtype if same_float else None, _multiplied(one.shape, two.shape, turned))


def _multiplied(one: Sizes | None, two: Sizes | None, turned: Sequence[bool]) -> Sizes | None:
    if one is None or two is None or len(one) < 2 or len(two) < 2:
        return None
    batches = broadcast(one[:-2], two[:-2])
    rows, columns = one[-1 if turned[0] else -2], two[-2 if turned[1] else -1]
    return None if batches is None else (*batches, rows, columns)


@tells("QuantBatchMatmulV3")
def quantised_product(call: FedNode) -> Known:
    turned = [call.attribute(name, False) for name in ("transpose_x1", "transpose_x2")]
    return Known(call.dtype("dtype"), _multiplied(call["x1"].shape, call["x2"].shape, turned))


@tells("DynamicQuant")
def dynamic_quantisation(call: FedNode) -> list[Known]:
    shape = call["x"].shape
    scales = None if shape is None or call.attribute("quant_mode", "pertoken") != "pertoken" else shape[:-1]
    return [Known(call.dtype("dst_type"), shape), Known("float32", scales)]


@tells("Range")
def counting(call: FedNode) -> Known:
    start, limit, delta = call["start"], call["limit"], call["delta"]
    if start.numbers == [0] and delta.numbers == [1] and limit.value is not None:
        size = limit.value[0]
        if size.number is None or size.number >= 0:
            return Known(None, (size,))
    return NOTHING


@tells("Fill")
def filled(call: FedNode) -> Known:
    return Known(call["value"].dtype, call["dims"].value)


@tells("BroadcastTo")
def broadcast_to(call: FedNode) -> Known:
    wanted = call["shape"].value
    # -1 keeps a size.
    return Known(call["x"].dtype, None if wanted is None or number(-1) in wanted else wanted)
