"""Shape functions of GE nodes that compute."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from math import prod

from ..ge import OF_DESC
from .inference import MAX_TRACKED_ELEMENTS, UNKNOWN, Inferred, NodeContext, shape_function
from .sizes import ONE, Size, Sizes, number, symbol

# The integer dtypes whose values are tracked, by their format in struct.
STRUCT_FORMATS = {"int64": "q", "int32": "i"}
FLOATS = ("float16", "bfloat16", "float32", "float64")
RANGES = {"int32": range(-(2**31), 2**31), "int64": range(-(2**63), 2**63)}


@shape_function("Const", "Constant")
def infer_constant(node: NodeContext) -> Inferred:
    tensor = node.op.attr["value"].t
    shape = tuple(tensor.desc.shape.dim)
    dtype = OF_DESC.get(tensor.desc.dtype)
    value = None
    if dtype in STRUCT_FORMATS and prod(shape) <= MAX_TRACKED_ELEMENTS:
        value = tuple(map(number, struct.unpack(f"<{prod(shape)}{STRUCT_FORMATS[dtype]}", tensor.data)))
    return Inferred(dtype, tuple(map(number, shape)), value)


@shape_function("Identity")
def infer_identity(node: NodeContext) -> Inferred:
    return node["x"]


@shape_function("Neg", "Cumsum", "ZerosLike")
def infer_unary(node: NodeContext) -> Inferred:
    return Inferred(node["x"].dtype, node["x"].shape)


@shape_function("ScatterElements")
def infer_scatter(node: NodeContext) -> Inferred:
    return Inferred(node["data"].dtype, node["data"].shape)


@shape_function("Abs", "Cos", "Sin", "Exp", "Sqrt", "Rsqrt", "Swish", "Relu", "Sigmoid", "Tanh", "Gelu")
def infer_float_unary(node: NodeContext) -> Inferred:
    """The dtype is kept for floats alone: some of these convert integers to floats, and Abs complex to real."""
    return Inferred(node["x"].dtype if node["x"].dtype in FLOATS else None, node["x"].shape)


@shape_function("LogicalNot")
def infer_logical_not(node: NodeContext) -> Inferred:
    return Inferred("bool", node["x"].shape)


@shape_function("SoftmaxV2")
def infer_softmax(node: NodeContext) -> Inferred:
    return Inferred(None if node.attribute("half_to_float") else node["x"].dtype, node["x"].shape)


@shape_function("Cast")
def infer_cast(node: NodeContext) -> Inferred:
    x, dtype = node["x"], node.dtype("dst_type")
    value = drop_overflow(dtype, x.value) if x.dtype in STRUCT_FORMATS and dtype in STRUCT_FORMATS else None
    if (x.dtype, dtype) == ("int64", "int32") and any(size.symbols & node.scalars for size in value or ()):
        value = None
    return Inferred(dtype, x.shape, value)


def drop_overflow(dtype: str | None, value: Sizes | None) -> Sizes | None:
    """The elements; None where one of them is out of the range of ``dtype``. Symbolic sizes always fit."""
    limits = RANGES.get(dtype or "", range(0))
    return None if value is None or any((size.number or 0) not in limits for size in value) else value


@shape_function("Add", "Sub", "Mul")
def infer_arithmetic(node: NodeContext) -> Inferred:
    one, two = node["x1"], node["x2"]
    dtype = one.dtype if one.dtype == two.dtype else None
    shape = broadcast(one.shape, two.shape)
    if dtype not in STRUCT_FORMATS or shape is None or not one.value or not two.value:
        return Inferred(dtype, shape)
    if not (_is_repeated(one.shape, shape) and _is_repeated(two.shape, shape)):
        return Inferred(dtype, shape)
    return Inferred(dtype, shape, drop_overflow(dtype, _elementwise(node.op.type, one.value, two.value)))


def _is_repeated(shape: Sizes | None, whole: Sizes) -> bool:
    """Whether broadcasting ``shape`` to ``whole`` only repeats all of its elements, in order."""
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


@shape_function("RealDiv", "Maximum", "Minimum", "Pow", "Div", "FloorDiv", "FloorMod")
def infer_binary(node: NodeContext) -> Inferred:
    one, two = node["x1"], node["x2"]
    return Inferred(one.dtype if one.dtype == two.dtype else None, broadcast(one.shape, two.shape))


@shape_function("Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual", "LogicalAnd", "LogicalOr")
def infer_comparison(node: NodeContext) -> Inferred:
    return Inferred("bool", broadcast(node["x1"].shape, node["x2"].shape))


@shape_function("SelectV2")
def infer_select(node: NodeContext) -> Inferred:
    then, other = node["then"], node["else"]
    shape = broadcast(node["condition"].shape, broadcast(then.shape, other.shape))
    return Inferred(then.dtype if then.dtype == other.dtype else None, shape)


def broadcast(one: Sizes | None, two: Sizes | None) -> Sizes | None:
    """The broadcast of two shapes; None where two different symbols meet, because either of them may be 1."""
    if one is None or two is None:
        return None
    rank = max(len(one), len(two))
    pairs = zip((ONE,) * (rank - len(one)) + one, (ONE,) * (rank - len(two)) + two, strict=True)
    sizes: list[Size] = []
    for a, b in pairs:
        if a != b and ONE not in (a, b) and (a.number is None) == (b.number is None):
            return None
        # A symbol that is broadcast with a number other than 1 is either 1 or that number.
        sizes.append(b if a == ONE or (a.number is None and b != ONE) else a)
    return tuple(sizes)


@shape_function("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin")
def infer_reduction(node: NodeContext) -> Inferred:
    x, axes = node["x"], node["axes"].numbers
    if x.shape is None or not axes:
        return Inferred(x.dtype)
    reduced = {axis % len(x.shape) for axis in axes}
    if node.attribute("keep_dims", False):
        return Inferred(x.dtype, tuple(ONE if axis in reduced else size for axis, size in enumerate(x.shape)))
    return Inferred(x.dtype, tuple(size for axis, size in enumerate(x.shape) if axis not in reduced))


@shape_function("ConcatV2")
def infer_concat(node: NodeContext) -> Inferred:
    parts = [part for name, part in node.inputs.items() if name != "concat_dim"]
    dtype = parts[0].dtype if all(part.dtype == parts[0].dtype for part in parts) else None
    axis, shapes = node["concat_dim"].numbers, [part.shape for part in parts]
    if not axis or None in shapes:
        return Inferred(dtype)
    whole = [shape for shape in shapes if shape is not None]
    # torch.cat ignores an empty vector among tensors of higher rank.
    if any(len(shape) != len(whole[0]) for shape in whole):
        return Inferred(dtype)
    dim = axis[0] % len(whole[0])
    joined = whole[0][dim]
    for shape in whole[1:]:
        joined += shape[dim]
    value = None
    if dtype in STRUCT_FORMATS and len(whole[0]) == 1 and all(part.value is not None for part in parts):
        value = tuple(size for part in parts for size in part.value or ())
    return Inferred(dtype, (*whole[0][:dim], joined, *whole[0][dim + 1 :]), value)


@shape_function("StridedSliceV2")
def infer_strided_slice(node: NodeContext) -> Inferred:
    x = node["x"]
    masks = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
    begin, end, axes, strides = (node[name].numbers for name in ("begin", "end", "axes", "strides"))
    if x.shape is None or not axes or any(node.attribute(mask) for mask in masks):
        return Inferred(x.dtype)
    shape = list(x.shape)
    for index, axis in enumerate(axes):
        length = shape[axis].number
        if length is None or not begin or not end or not strides:
            shape[axis] = symbol(f"{node.op.name}[{axis}]")
        else:
            shape[axis] = number(len(range(length)[begin[index] : end[index] : strides[index]]))
    return Inferred(x.dtype, tuple(shape))


@shape_function("GatherV2", "Gather")
def infer_gather(node: NodeContext) -> Inferred:
    x, indices = node["x"], node["indices"]
    axis = node["axis"].numbers if node.op.type == "GatherV2" else [0]
    if x.shape is None or indices.shape is None or not axis or node.attribute("batch_dims"):
        return Inferred(x.dtype)
    dim = axis[0] % len(x.shape)
    value, numbers = None, indices.numbers
    if x.value is not None and len(x.shape) == 1 and numbers is not None and min(numbers, default=0) >= 0:
        value = tuple(x.value[index] for index in numbers)
    return Inferred(x.dtype, (*x.shape[:dim], *indices.shape, *x.shape[dim + 1 :]), value)


@shape_function("MatMul", "MatMulV2", "MatMulV3", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
def infer_matmul(node: NodeContext) -> Inferred:
    one, two = node["x1"], node["x2"]
    name = "adj" if node.op.type.startswith("Batch") else "transpose"
    transposed = [node.attribute(f"{name}_{operand}", False) for operand in ("x1", "x2")]
    same_float = one.dtype == two.dtype and one.dtype in ("float32", "float16", "bfloat16")
    return Inferred(one.dtype if same_float else None, _matmul_shape(one.shape, two.shape, transposed))


def _matmul_shape(one: Sizes | None, two: Sizes | None, transposed: Sequence[bool]) -> Sizes | None:
    if one is None or two is None or len(one) < 2 or len(two) < 2:
        return None
    batches = broadcast(one[:-2], two[:-2])
    rows, columns = one[-1 if transposed[0] else -2], two[-2 if transposed[1] else -1]
    return None if batches is None else (*batches, rows, columns)


@shape_function("QuantBatchMatmulV3")
def infer_quant_matmul(node: NodeContext) -> Inferred:
    transposed = [node.attribute(name, False) for name in ("transpose_x1", "transpose_x2")]
    return Inferred(node.dtype("dtype"), _matmul_shape(node["x1"].shape, node["x2"].shape, transposed))


@shape_function("DynamicQuant")
def infer_dynamic_quant(node: NodeContext) -> list[Inferred]:
    shape = node["x"].shape
    scales = None if shape is None or node.attribute("quant_mode", "pertoken") != "pertoken" else shape[:-1]
    return [Inferred(node.dtype("dst_type"), shape), Inferred("float32", scales)]


@shape_function("Range")
def infer_range(node: NodeContext) -> Inferred:
    start, limit, delta = node["start"], node["limit"], node["delta"]
    if start.numbers == [0] and delta.numbers == [1] and limit.value is not None:
        size = limit.value[0]
        if size.number is None or size.number >= 0:
            return Inferred(None, (size,))
    return UNKNOWN


@shape_function("Fill")
def infer_fill(node: NodeContext) -> Inferred:
    return Inferred(node["value"].dtype, node["dims"].value)


@shape_function("BroadcastTo")
def infer_broadcast_to(node: NodeContext) -> Inferred:
    target = node["shape"].value
    # -1 keeps a size of the input.
    return Inferred(node["x"].dtype, None if target is None or number(-1) in target else target)
