"""Shape functions agree with the kernels: inferred dtypes and shapes are those of the results."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import torch
from graph_quant.ge.values import ge_dtype_name
from graph_quant.passes.graph import Graph
from graph_quant.passes.inference import SHAPE_FUNCTIONS

from support.graph_builder import GraphBuilder, results

DTYPES = (
    torch.float32,
    torch.bfloat16,
    torch.float64,
    torch.int64,
    torch.int8,
    torch.uint8,
    torch.bool,
    torch.complex64,
)
# For calls with several tensors.
FEWER = (torch.float32, torch.bfloat16, torch.int64, torch.bool)
UNARY = (
    "Neg", "Abs", "Cos", "Sin", "Exp", "Sqrt", "Rsqrt", "Swish", "Relu", "Sigmoid", "Tanh", "Gelu", "LogicalNot",
    "Identity",
)  # fmt: skip
BINARY = (
    "Add", "Sub", "Mul", "RealDiv", "Maximum", "Minimum", "Pow", "Div", "FloorDiv", "FloorMod", "LogicalAnd",
    "LogicalOr", "Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual",
)  # fmt: skip
REDUCTIONS = ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin")
PRODUCTS = ("MatMul", "MatMulV2", "MatMulV3", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
# An input is a shape, which is tested in every dtype, or a constant.
Fed = dict[str, tuple[int, ...] | list[Any] | int]
MATRIX = (2, 3)


def _calls() -> Iterator[tuple[str, Fed, dict[str, Any]]]:
    yield from ((kind, {"x": MATRIX}, {}) for kind in UNARY)
    yield from ((kind, {"x1": MATRIX, "x2": (1, 3)}, {}) for kind in BINARY)
    for kind, axes, keep in itertools.product(REDUCTIONS, ([0], [1, 0], [-1]), (False, True)):
        yield kind, {"x": MATRIX, "axes": axes}, {"keep_dims": keep}
    for kind, shapes in itertools.product(PRODUCTS, ((MATRIX, (3, 4)), ((2, 2, 3), (3, 4)), ((2, 2, 3), (1, 3, 4)))):
        yield kind, {"x1": shapes[0], "x2": shapes[1]}, {}
    for half in (False, True):
        yield "SoftmaxV2", {"x": MATRIX}, {"axes": [-1], "half_to_float": half}
    yield "Cumsum", {"x": MATRIX, "axis": 0}, {}
    yield "SelectV2", {"condition": MATRIX, "then": (3,), "else": (2, 1)}, {}
    for shapes in (((2, 3), (1, 3)), ((0,), (1, 3)), ((1, 3), (0,))):
        yield "ConcatV2", {"x0": shapes[0], "x1": shapes[1], "concat_dim": 0}, {"N": 2}
    for axis in (0, 1):
        yield "Pack", {"x0": MATRIX, "x1": MATRIX}, {"N": 2, "axis": axis}
    yield "GatherV2", {"x": MATRIX, "indices": [[0, 1]], "axis": 1}, {}
    yield "Gather", {"x": MATRIX, "indices": 1}, {}
    yield "ScatterElements", {"data": MATRIX, "indices": [[0, 1]], "updates": (1, 2)}, {"axis": 1}
    for first, last, axis, step in (
        (0, 2, 1, 1),
        (-2, 5, 1, 1),
        (0, -1, 0, 2),
        (5, 9, 1, 1),
        (2, 0, 1, -1),
        (0, 2, -1, 1),
    ):
        cut: Fed = {"begin": [first], "end": [last], "axes": [axis], "strides": [step]}
        yield "StridedSliceV2", {"x": MATRIX, **cut}, {}
    for start, limit, step in ((0, 5, 1), (1, 5, 2)):
        yield "Range", {"start": start, "limit": limit, "delta": step}, {}
    yield "ZerosLike", {"x": MATRIX}, {}
    yield "Fill", {"dims": [2, 3], "value": ()}, {}
    for wanted in ([2, 3], [2, -1]):
        yield "BroadcastTo", {"x": (1, 3), "shape": wanted}, {}
    yield "Shape", {"x": MATRIX}, {"dtype": "int64"}
    yield "Transpose", {"x": (2, 3, 4), "perm": [2, 0, 1]}, {}
    for axes in ([-1, 0], [1, 2]):
        yield "Unsqueeze", {"x": MATRIX}, {"axes": axes}
    for axes in ([1], [-2], []):
        yield "Squeeze", {"x": (2, 1, 3)}, {"axis": axes}
    for wanted, rows in itertools.product(([0, -1], [3, 2], [-1], [0, 3], [-1, 3], [0, 0]), (2, 0)):
        yield "Reshape", {"x": (rows, 3), "shape": wanted}, {}
    for kind, width in itertools.product(("int8", "uint8", "int32", "float32", "int64"), (2, 4, 8)):
        yield "Bitcast", {"x": (2, width)}, {"type": kind}
    for kind in DTYPES:
        yield "Cast", {"x": MATRIX}, {"dst_type": ge_dtype_name(kind)}


CALLS = list(_calls())
# Quantised results are covered by the tests of int4 and of products; constants need none.
TESTED_SEPARATELY = {"Const", "Constant", "DynamicQuant", "QuantBatchMatmulV3"}


def test_every_shape_function_is_tested() -> None:
    assert {kind for kind, _, _ in CALLS} == SHAPE_FUNCTIONS.keys() - TESTED_SEPARATELY


@pytest.mark.parametrize("kind", sorted({kind for kind, _, _ in CALLS}))
def test_inferred_metadata_matches_the_kernel(kind: str) -> None:
    computed = 0
    for _, fed, attributes in (value for value in CALLS if value[0] == kind):
        tensors = sum(isinstance(value, tuple) for value in fed.values())
        for dtypes in itertools.product(DTYPES if tensors < 2 else FEWER, repeat=tensors):
            computed += _agrees(kind, fed, attributes, dtypes)
    assert computed, "every call was refused"


def _agrees(kind: str, fed: Fed, attributes: dict[str, Any], dtypes: Sequence[torch.dtype]) -> bool:
    """Whether the kernel accepts the call; if so, the inferred metadata must match the result."""
    builder, remaining, inputs = GraphBuilder(), iter(dtypes), list[torch.Tensor]()
    names: dict[str, str] = {}
    for name, argument in fed.items():
        if isinstance(argument, tuple):
            inputs.append(torch.ones(argument).to(next(remaining)))
            names[name] = builder.data(*argument, dtype=ge_dtype_name(inputs[-1].dtype))
        else:
            names[name] = builder.const(argument)
    result = builder.op(kind, names, **attributes)
    graph = builder.output(result)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            (value,) = results(graph, *inputs)
    except Exception:
        return False
    inferred = Graph(graph).inferred(result)
    assert inferred.dtype in (None, ge_dtype_name(value.dtype)), (dtypes, attributes)
    shape = None if inferred.shape is None else tuple(size.number for size in inferred.shape)
    assert shape in (None, tuple(value.shape)), (fed, attributes)
    return True
