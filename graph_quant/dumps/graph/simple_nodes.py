"""Result types of common nodes, for calls that the host's kernels certainly accept; None for all others."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ...ge import OF_ATTRIBUTE, Node, to_python
from .shapes import Dim, TensorType

_FLOATS = ("float16", "bfloat16", "float32")
_HALVES = ("float16", "bfloat16")
_CASTS = (*_FLOATS, "float64", "int32", "int64", "int8", "uint8", "bool")

Shape = tuple[Dim, ...]


class Operand(NamedTuple):
    """A value in a graph: its type and, of a small constant, the elements."""

    type: TensorType
    values: tuple[Any, ...] | None = None
    is_constant: bool = False

    @property
    def dtype(self) -> str:
        """The dtype."""
        return self.type.dtype

    @property
    def shape(self) -> Shape:
        """The shape, which is always known."""
        return self.type.shape or ()

    @property
    def integers(self) -> list[int] | None:
        """The elements if they are integers."""
        return list(self.values) if self.values is not None and self.dtype in ("int32", "int64") else None


class NodeCall(NamedTuple):
    """A node with its inputs by name and its attributes."""

    inputs: Mapping[str, Operand]
    attributes: Mapping[str, Any]

    def only(self, *names: str) -> bool:
        """Whether exactly these inputs are connected."""
        return set(self.inputs) == set(names)


Results = list[tuple[str, Shape]]
Rule = Callable[[NodeCall], Results | None]


class _Entry(NamedTuple):
    attributes: frozenset[str]
    rule: Rule


_RULES: dict[str, _Entry] = {}


def infer_node(node: Node, inputs: Mapping[str, Operand]) -> tuple[Operand, ...] | None:
    """The results of a node; None if a kernel has to infer them."""
    entry = _RULES.get(node.type)
    if entry is None or not inputs or all(operand.values is not None for operand in inputs.values()):
        return None
    attributes = {name: to_python(node.proto.attr[name]) for name in node.proto.attr if not name.startswith("_")}
    if not entry.attributes.issuperset(attributes):
        return None
    results = entry.rule(NodeCall(inputs, attributes))
    if results is None or any(_has_unknown_size(shape) for _, shape in results):
        return None
    return tuple(Operand(TensorType(dtype, shape)) for dtype, shape in results)


def _has_unknown_size(shape: Shape) -> bool:
    return any(isinstance(size, int) and size < 0 for size in shape)


def _rule(*types: str, attributes: tuple[str, ...] = ()) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        _RULES.update(dict.fromkeys(types, _Entry(frozenset(attributes), rule)))
        return rule

    return register


def _broadcast(one: Shape, two: Shape) -> Shape | None:
    rank = max(len(one), len(two))
    sizes: list[Dim] = []
    for a, b in zip((1,) * (rank - len(one)) + one, (1,) * (rank - len(two)) + two, strict=True):
        if a != b and 1 not in (a, b):
            return None
        sizes.append(b if a == 1 else a)
    return tuple(sizes)


@_rule("Add", "Sub", "Mul", "Maximum", "Minimum", "RealDiv")
def _infer_binary(call: NodeCall) -> Results | None:
    if not call.only("x1", "x2"):
        return None
    one, two = call.inputs["x1"], call.inputs["x2"]
    shape = _broadcast(one.shape, two.shape)
    return [(one.dtype, shape)] if one.dtype == two.dtype and one.dtype in _FLOATS and shape is not None else None


@_rule("Abs", "Cos", "Erf", "Neg", "Reciprocal", "Rsqrt", "Sin", "Sqrt", "Square", "Tanh", "Relu", "Sigmoid", "Gelu")
def _infer_unary(call: NodeCall) -> Results | None:
    if not call.only("x"):
        return None
    x = call.inputs["x"]
    return [(x.dtype, x.shape)] if x.dtype in _FLOATS else None


@_rule("GeluV2", attributes=("approximate",))
def _infer_gelu(call: NodeCall) -> Results | None:
    return _infer_unary(call) if call.attributes.get("approximate", "none") in ("none", "tanh") else None


@_rule("Swish", attributes=("scale",))
def _infer_swish(call: NodeCall) -> Results | None:
    return _infer_unary(call) if call.attributes.get("scale", 1.0) == 1.0 else None


@_rule("SoftmaxV2", attributes=("axes", "half_to_float"))
def _infer_softmax(call: NodeCall) -> Results | None:
    axes = call.attributes.get("axes", [-1])
    if call.attributes.get("half_to_float", False) or len(axes) != 1 or not call.only("x"):
        return None
    rank = len(call.inputs["x"].shape)
    return _infer_unary(call) if rank and -rank <= axes[0] < rank else None


@_rule("Identity")
def _infer_identity(call: NodeCall) -> Results | None:
    x = call.inputs["x"] if call.only("x") else None
    return [(x.dtype, x.shape)] if x and x.dtype in _CASTS else None


@_rule("Cast", attributes=("dst_type",))
def _infer_cast(call: NodeCall) -> Results | None:
    x, dtype = call.inputs.get("x"), OF_ATTRIBUTE.get(call.attributes.get("dst_type", -1), "")
    return [(dtype, x.shape)] if x and call.only("x") and x.dtype in _CASTS and dtype in _CASTS else None


@_rule("Reshape", attributes=("axis", "num_axes"))
def _infer_reshape(call: NodeCall) -> Results | None:
    if not call.only("x", "shape") or (call.attributes.get("axis", 0), call.attributes.get("num_axes", -1)) != (0, -1):
        return None
    x, target = call.inputs["x"], call.inputs["shape"].integers
    if target is None or len(call.inputs["shape"].shape) != 1 or 0 in target or min(target, default=1) < -1:
        return None
    total = math.prod(x.shape)
    if target.count(-1) > 1 or total == 0 or x.dtype not in _CASTS:
        return None
    if -1 not in target:
        return [(x.dtype, tuple(target))] if total == math.prod(target) else None
    missing = _divide(total, -math.prod(target))
    return None if missing is None else [(x.dtype, tuple(missing if size == -1 else size for size in target))]


def _divide(total: Dim, divisor: int) -> Dim | None:
    """The quotient if it is certainly whole: a number, or a product of symbols."""
    if isinstance(total, int):
        return total // divisor if total % divisor == 0 else None
    quotient = total / divisor
    is_product = quotient.is_Symbol or quotient.is_Mul
    return quotient if is_product and quotient.as_numer_denom()[1] == 1 else None


@_rule("Transpose")
def _infer_transpose(call: NodeCall) -> Results | None:
    if not call.only("x", "perm"):
        return None
    x, axes = call.inputs["x"], call.inputs["perm"].integers
    if axes is None or sorted(axes) != list(range(len(x.shape))) or x.dtype not in _CASTS:
        return None
    return [(x.dtype, tuple(x.shape[axis] for axis in axes))]


def _matmul_shape(one: Shape, two: Shape, transposed: tuple[bool, bool]) -> Shape | None:
    if len(one) < 2 or len(two) < 2:
        return None
    rows, inner = one[-2:] if not transposed[0] else one[:-3:-1]
    other_inner, columns = two[-2:] if not transposed[1] else two[:-3:-1]
    batches = _broadcast(one[:-2], two[:-2])
    return None if batches is None or inner != other_inner else (*batches, rows, columns)


def _infer_product(call: NodeCall, name: str, rank: int | None) -> Results | None:
    if not call.only("x1", "x2") or call.attributes.get("offset_x", 0):
        return None
    one, two = call.inputs["x1"], call.inputs["x2"]
    if one.dtype != two.dtype or one.dtype not in _FLOATS or (rank and {len(one.shape), len(two.shape)} != {rank}):
        return None
    transposed = (bool(call.attributes.get(f"{name}_x1")), bool(call.attributes.get(f"{name}_x2")))
    shape = _matmul_shape(one.shape, two.shape, transposed)
    return [(one.dtype, shape)] if shape is not None else None


@_rule("MatMul", "MatMulV2", "MatMulV3", attributes=("transpose_x1", "transpose_x2", "offset_x"))
def _infer_matmul(call: NodeCall) -> Results | None:
    return _infer_product(call, "transpose", 2)


@_rule("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", attributes=("adj_x1", "adj_x2", "offset_x"))
def _infer_batch_matmul(call: NodeCall) -> Results | None:
    return _infer_product(call, "adj", None)


@_rule("DynamicQuant", attributes=("dst_type", "quant_mode"))
def _infer_dynamic_quant(call: NodeCall) -> Results | None:
    x = call.inputs.get("x")
    plain = call.attributes.get("dst_type", 2) == 2 and call.attributes.get("quant_mode", "pertoken") == "pertoken"
    if x is None or not plain or not call.only("x") or x.dtype not in _HALVES or not x.shape or 0 in x.shape:
        return None
    return [("int8", x.shape), ("float32", x.shape[:-1])]


@_rule("QuantBatchMatmulV3", attributes=("dtype", "transpose_x1", "transpose_x2"))
def _infer_quant_matmul(call: NodeCall) -> Results | None:
    operands = {name: call.inputs.get(name) for name in ("x1", "x2", "scale", "pertoken_scale", "bias")}
    one, two, scale, tokens, bias = operands.values()
    if one is None or two is None or scale is None or tokens is None or not call.only(*filter(operands.get, operands)):
        return None
    dtype = OF_ATTRIBUTE.get(call.attributes.get("dtype", -1), "")
    if (one.dtype, two.dtype, tokens.dtype) != ("int8", "int8", "float32") or dtype not in _HALVES:
        return None
    transposed = (bool(call.attributes.get("transpose_x1")), bool(call.attributes.get("transpose_x2")))
    shape = _matmul_shape(one.shape, two.shape, transposed) if len(one.shape) == len(two.shape) == 2 else None
    if shape is None or tokens.shape != shape[:1] or scale.shape != shape[1:] or 0 in shape or 0 in one.shape:
        return None
    allowed = ("float32",) if dtype == "float16" else ("float32", "bfloat16")
    if scale.dtype not in allowed or (bias and (bias.shape != shape[1:] or bias.dtype not in ("int32", "float32"))):
        return None
    return [(dtype, shape)]


@_rule("LayerNormV4", attributes=("epsilon",))
def _infer_layer_norm(call: NodeCall) -> Results | None:
    if not call.only("x", "normalized_shape", "gamma", "beta"):
        return None
    x, sizes = call.inputs["x"], call.inputs["normalized_shape"].integers
    if not sizes or tuple(sizes) != x.shape[-len(sizes) :] or x.dtype != "float32":
        return None
    if any((call.inputs[name].dtype, call.inputs[name].shape) != (x.dtype, tuple(sizes)) for name in ("gamma", "beta")):
        return None
    kept = (*x.shape[: -len(sizes)], *(1,) * len(sizes))
    return [(x.dtype, x.shape), ("float32", kept), ("float32", kept)]


@_rule("RmsNorm", attributes=("epsilon",))
def _infer_rms_norm(call: NodeCall) -> Results | None:
    if not call.only("x", "gamma"):
        return None
    x, gamma = call.inputs["x"], call.inputs["gamma"]
    if x.dtype not in _FLOATS or gamma.dtype != x.dtype or len(gamma.shape) != 1 or gamma.shape != x.shape[-1:]:
        return None
    return [(x.dtype, x.shape), ("float32", (*x.shape[:-1], 1))]


@_rule("AddRmsNorm", attributes=("epsilon",))
def _infer_add_rms_norm(call: NodeCall) -> Results | None:
    if not call.only("x1", "x2", "gamma"):
        return None
    one, two, gamma = (call.inputs[name] for name in ("x1", "x2", "gamma"))
    if (one.dtype, one.shape) != (two.dtype, two.shape):
        return None
    norm = _infer_rms_norm(NodeCall({"x": one, "gamma": gamma}, {}))
    return norm and [*norm, (one.dtype, one.shape)]
