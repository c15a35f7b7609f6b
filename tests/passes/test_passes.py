"""Every pass: what it removes, what it must keep, and that results keep every bit."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from google.protobuf import text_format
from graph_quant import passes
from graph_quant.passes.constants import get_constant
from graph_quant.passes.graph import Graph
from graph_quant.passes.inference import InputInfo
from graph_quant.passes.sizes import symbol
from torchair._ge_concrete_graph.ge_ir_pb2 import GraphDef

from support.graph_builder import GraphBuilder, results, types


def lean(graph: Any, *inputs: torch.Tensor, through: Sequence[str] = passes.NAMES) -> list[str]:
    """The node types after the passes; results must not change."""
    before = results(graph, *inputs)
    passes.run(graph, through)
    after = results(graph, *inputs)
    assert len(before) == len(after)
    for one, other in zip(before, after, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)
    return types(graph)


def count(graph: Any, kind: str) -> int:
    return sum(op.type == kind for op in graph.op)


def test_equal_constants_are_merged() -> None:
    builder = GraphBuilder()
    x = builder.data(3)
    for value, dtype in ((1, torch.float32), (1, torch.float32), (2, torch.float32), (0.0, torch.float32)):
        x = builder.op("Add", {"x1": x, "x2": builder.const(value, dtype)})
    x = builder.op("Add", {"x1": x, "x2": builder.const(-0.0, torch.float32)})
    graph = builder.output(x)
    lean(graph, torch.randn(3), through=("constants", "dce"))
    assert count(graph, "Const") == 4, "1, 2, 0 and -0"


def test_cse_merges_pure_nodes_alone() -> None:
    builder = GraphBuilder()
    x = builder.data(4)
    one, other = (builder.op("Neg", {"x": builder.op("Neg", {"x": x})}) for _ in range(2))
    graph = builder.output(builder.op("Mul", {"x1": one, "x2": other}))
    assert lean(graph, torch.randn(4)) == ["Neg", "Neg", "Mul"]
    builder = GraphBuilder()
    shape = builder.const([4])
    drawn = [
        builder.op(
            "StatelessRandomUniformV2", {"shape": shape, "key": builder.const([1]), "counter": shape, "alg": shape}
        )
        for _ in range(2)
    ]
    graph = builder.output(*drawn)
    passes.run(graph, passes.NAMES)
    assert count(graph, "StatelessRandomUniformV2") == 2


def _casts(*dtypes: str, start: str) -> Any:
    builder = GraphBuilder()
    x = builder.data(5, dtype=start)
    result = x
    for dtype in dtypes:
        result = builder.op("Cast", {"x": result}, dst_type=dtype)
    return builder.output(builder.op("Neg", {"x": result}))


HALVES = torch.tensor([0.1, -3.7, 65504.0, float("inf"), float("nan")])


@pytest.mark.parametrize(
    ("start", "casts", "left"),
    [
        ("float32", ["float32"], 0),
        ("bfloat16", ["float32", "bfloat16"], 0),
        ("float16", ["float32", "float16", "float16"], 0),
        ("float32", ["bfloat16", "float32"], 2),
        ("float32", ["float16", "bfloat16"], 2),
        ("bfloat16", ["float16", "bfloat16"], 2),
        ("float64", ["float32", "bfloat16"], 2),
        ("int8", ["bfloat16", "int8"], 0),
        ("int32", ["float32", "int32"], 2),
        ("int64", ["int32", "int64"], 2),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else str(value),
)
def test_only_lossless_casts_are_removed(start: str, casts: list[str], left: int) -> None:
    dtype = getattr(torch, start)
    x = HALVES.to(dtype) if dtype.is_floating_point else torch.tensor([0, 1, -128, 127, 99]).to(dtype)
    if start in ("int32", "int64"):
        x = x * (2**24 + 1) if start == "int32" else x + 2**31
    assert lean(_casts(*casts, start=start), x).count("Cast") == left


def test_inverse_reshapes_are_removed() -> None:
    builder = GraphBuilder()
    x = builder.data(2, -1, 4)
    flat = builder.op("Reshape", {"x": x, "shape": builder.const([-1, 4])})
    back = builder.op("Reshape", {"x": flat, "shape": builder.const([2, -1, 4])})
    put = builder.op("Squeeze", {"x": builder.op("Unsqueeze", {"x": back}, axes=[1])}, axis=[1])
    graph = builder.output(builder.op("Neg", {"x": put}))
    assert lean(graph, torch.randn(2, 3, 4)) == ["Neg"]


def test_consecutive_reshapes_are_merged() -> None:
    builder = GraphBuilder()
    x = builder.data(2, -1, 4)
    one = builder.op("Reshape", {"x": x, "shape": builder.const([-1, 4])})
    two = builder.op("Unsqueeze", {"x": builder.op("Unsqueeze", {"x": one}, axes=[0])}, axes=[-1])
    graph = builder.output(builder.op("Neg", {"x": two}))
    assert lean(graph, torch.randn(2, 3, 4)) == ["Reshape", "Neg"]
    builder = GraphBuilder()
    x = builder.data(-1, -1)
    graph = builder.output(builder.op("Unsqueeze", {"x": builder.op("Unsqueeze", {"x": x}, axes=[1])}, axes=[0, -1]))
    assert lean(graph, torch.randn(2, 3)) == ["Unsqueeze"]
    assert list(graph.op[1].attr["axes"].list.i) == [0, 2, 4]


def test_reshapes_across_a_transpose_are_kept() -> None:
    """Reshaping [2, s] to [s, 2] and back is the identity, but not with a transpose between."""
    builder = GraphBuilder()
    x = builder.data(2, -1)
    transposed = builder.op("Transpose", {"x": x, "perm": builder.const([1, 0])})
    graph = builder.output(
        builder.op("Neg", {"x": builder.op("Reshape", {"x": transposed, "shape": builder.const([2, -1])})})
    )
    assert lean(graph, torch.randn(2, 3)) == ["Transpose", "Reshape", "Neg"]


def _sized(builder: GraphBuilder, x: str, axis: int) -> str:
    return builder.op("Gather", {"x": builder.op("Shape", {"x": x}, dtype="int64"), "indices": builder.const(axis)})


def test_known_sizes_become_constants() -> None:
    builder = GraphBuilder()
    x = builder.data(3, -1, 8)
    wanted = [builder.op("Mul", {"x1": _sized(builder, x, 0), "x2": _sized(builder, x, 1)}), _sized(builder, x, 2)]
    shape = builder.op("Pack", {"x0": wanted[0], "x1": wanted[1]}, axis=0, N=2)
    graph = builder.output(builder.op("Reshape", {"x": x, "shape": shape}))
    assert lean(graph, torch.randn(3, 5, 8)) == ["Reshape"]
    assert count(graph, "Const") == 1


def test_equal_sizes_are_computed_once() -> None:
    builder = GraphBuilder()
    x, y = builder.data(-1, -1), builder.data(1, 1)

    def doubled(axis: int) -> str:
        size = _sized(builder, x, axis)
        return (
            builder.op("Add", {"x1": size, "x2": size})
            if axis
            else builder.op("Mul", {"x1": builder.const(2), "x2": size})
        )

    packs = [builder.op("Pack", {"x0": doubled(0), "x1": doubled(1)}, axis=0, N=2) for _ in range(3)]
    parts = [builder.op("BroadcastTo", {"x": y, "shape": pack}) for pack in packs]
    graph = builder.output(
        builder.op("Add", {"x1": builder.op("Add", {"x1": parts[0], "x2": parts[1]}), "x2": parts[2]})
    )
    left = lean(graph, torch.randn(3, 5), torch.randn(1, 1))
    assert (left.count("Pack"), left.count("Shape"), left.count("Gather"), left.count("BroadcastTo")) == (1, 1, 2, 1)


def test_a_size_that_may_be_zero_is_not_inferred() -> None:
    """-1 is inferred by division, which is undefined for 0 elements."""
    builder = GraphBuilder()
    x = builder.data(-1, -1)
    flat = builder.op("Reshape", {"x": x, "shape": builder.const([-1])})
    shape = builder.op("Pack", {"x0": _sized(builder, x, 1), "x1": _sized(builder, x, 0)}, axis=0, N=2)
    graph = builder.output(builder.op("Reshape", {"x": flat, "shape": shape}))
    passes.run(graph, passes.NAMES)
    assert types(graph).count("Pack") == 1


def test_a_reshape_of_an_empty_tensor_copies_no_size() -> None:
    builder = GraphBuilder()
    groups = builder.op("Reshape", {"x": builder.data(0, 6, 10), "shape": builder.const([1, 0, 1])})
    graph = builder.output(builder.op("Unsqueeze", {"x": groups}, axes=[3]))
    assert lean(graph, torch.randn(0, 6, 10)) == ["Reshape", "Unsqueeze"]


def _product(kind: str, attribute: str, *, transposed: bool, **attributes: Any) -> Any:
    builder = GraphBuilder()
    x1, x2 = builder.data(3, 4), builder.data(5, 4)
    right = builder.op("Transpose", {"x": x2, "perm": builder.const([1, 0])})
    return builder.output(builder.op(kind, {"x1": x1, "x2": right}, **{attribute: transposed}, **attributes))


@pytest.mark.parametrize("kind", ["MatMul", "BatchMatMul", "BatchMatMulV2"])
def test_a_transpose_is_folded_into_a_product(kind: str) -> None:
    attribute = "transpose_x2" if kind == "MatMul" else "adj_x2"
    graph = _product(kind, attribute, transposed=False)
    assert lean(graph, torch.randn(3, 4), torch.randn(5, 4)) == [kind]
    assert next(op for op in graph.op if op.type == kind).attr[attribute].b


def test_a_transpose_of_int8_weights_is_folded_into_a_product() -> None:
    builder = GraphBuilder()
    x1, x2, scale = builder.data(3, 4, dtype="int8"), builder.data(5, 4, dtype="int8"), builder.data(5)
    right = builder.op("Transpose", {"x": x2, "perm": builder.const([1, 0])})
    product = builder.op(
        "QuantBatchMatmulV3",
        {"x1": x1, "x2": right, "scale": scale},
        dtype="bfloat16",
        transpose_x1=False,
        transpose_x2=False,
    )
    inputs = [torch.randint(-128, 128, size, dtype=torch.int8) for size in ((3, 4), (5, 4))]
    assert lean(builder.output(product), *inputs, torch.rand(5)) == ["QuantBatchMatmulV3"]


def test_consecutive_transposes_are_merged() -> None:
    builder = GraphBuilder()
    x = builder.data(2, 3, 4)
    turn = builder.const([1, 2, 0])
    twice = builder.op("Transpose", {"x": builder.op("Transpose", {"x": x, "perm": turn}), "perm": turn})
    thrice = builder.op("Transpose", {"x": twice, "perm": turn})
    graph = builder.output(builder.op("Neg", {"x": twice}), builder.op("Neg", {"x": thrice}))
    assert lean(graph, torch.randn(2, 3, 4)) == ["Transpose", "Neg", "Neg"]


def test_unit_dimensions_are_hoisted_above_a_transpose() -> None:
    builder = GraphBuilder()
    x = builder.data(-1, 32)
    heads = builder.op("Reshape", {"x": x, "shape": builder.const([-1, 8, 4])})
    transposed = builder.op("Transpose", {"x": heads, "perm": builder.const([1, 0, 2])})
    graph = builder.output(builder.op("Reshape", {"x": transposed, "shape": builder.const([1, 8, 1, -1, 4])}))
    assert lean(graph, torch.randn(6, 32)) == ["Reshape", "Transpose"]


@pytest.mark.parametrize("viewed", [False, True], ids=["plain", "viewed"])
def test_packing_and_unpacking_int4_is_removed(viewed: bool) -> None:
    builder = GraphBuilder()
    x = builder.data(2, -1, 16, dtype="float16")
    quantised = builder.op("DynamicQuant", {"x": x}, outputs=("y", "scale"), dst_type="int4")
    eights = builder.op("Reshape", {"x": quantised, "shape": builder.const([0, 0, -1, 8])})
    packed = builder.op("Bitcast", {"x": eights}, type="int32")
    if viewed:
        packed = builder.op("Reshape", {"x": packed, "shape": builder.const([-1, 2])})
    again = builder.op("Bitcast", {"x": packed}, type="int4")
    elements = builder.op("Reshape", {"x": again, "shape": builder.const([0, -1] if viewed else [0, 0, -1])})
    graph = builder.output(builder.op("Neg", {"x": elements}))
    left = lean(graph, torch.randn(2, 3, 16).half())
    assert left == ["DynamicQuant", *["Reshape"] * viewed, "Neg"]


def test_memory_that_is_written_in_place_is_not_merged() -> None:
    """Two equal buffers, one of which is written to, and a copy that precedes the write."""
    builder = GraphBuilder()
    x, index, update = builder.data(4, 2), builder.data(1, 1, dtype="int64"), builder.data(1, 2)
    one, other = (builder.op("Neg", {"x": x}) for _ in range(2))
    kept = builder.op("Identity", {"x": one})
    written = builder.op("ScatterNdUpdate", {"var": one, "indices": index, "updates": update}, outputs=("var",))
    graph = builder.output(written, builder.op("Add", {"x1": kept, "x2": other}))
    before = text_format.MessageToString(graph)
    passes.run(graph, passes.NAMES)
    assert text_format.MessageToString(graph) == before


def test_nodes_with_control_edges_are_kept() -> None:
    builder = GraphBuilder()
    x = builder.data(4)
    one, other = (builder.op("Identity", {"x": x}) for _ in range(2))
    total = builder.op("Add", {"x1": one, "x2": other})
    builder.control(one, total)
    graph = builder.output(total)
    assert lean(graph, torch.randn(4)) == ["Identity", "Add"]
    assert graph.op[2].input[2] == f"{one[:-2]}:-1"


def test_outputs_do_not_become_inputs_or_each_other() -> None:
    builder = GraphBuilder()
    x = builder.data(4)
    alone = builder.op("Cast", {"x": x}, dst_type="float32")
    pair = [builder.op("Neg", {"x": x}) for _ in range(2)]
    graph = builder.output(alone, *pair)
    assert lean(graph, torch.randn(4)) == ["Cast", "Neg", "Neg"]


def test_dce_keeps_the_order_of_inputs() -> None:
    builder = GraphBuilder()
    x, unused = builder.data(4), builder.data(2)
    builder.op("Neg", {"x": unused})
    graph = builder.output(builder.op("Neg", {"x": x}))
    assert lean(graph, torch.randn(4), torch.randn(2)) == ["Neg"]
    assert [op.attr["index"].i for op in graph.op if op.type == "Data"] == [0, 1]


def test_nodes_are_in_topological_order() -> None:
    builder = GraphBuilder()
    x = builder.data(3, -1)
    shape = builder.op("Pack", {"x0": _sized(builder, x, 1), "x1": builder.const(3)}, axis=0, N=2)
    graph = builder.output(builder.op("Reshape", {"x": x, "shape": shape}))
    passes.run(graph, passes.NAMES)
    seen: set[str] = set()
    for op in graph.op:
        assert {reference.rpartition(":")[0] for reference in op.input if reference} <= seen
        seen.add(op.name)


def test_an_unsorted_graph_is_accepted() -> None:
    """Nodes of a file are in any order; a size must not be replaced by one that depends on it."""
    builder = GraphBuilder()
    x = builder.data(-1, 4)
    first = builder.op("BroadcastTo", {"x": builder.const(1), "shape": builder.op("Shape", {"x": x}, dtype="int64")})
    again = builder.op("Shape", {"x": builder.op("Neg", {"x": first})}, dtype="int64")
    builder.output(builder.op("BroadcastTo", {"x": first, "shape": again}))
    reversed_graph = GraphDef(name="reversed", op=list(reversed(builder.graph.op)))
    assert lean(reversed_graph, torch.zeros(3, 4)).count("Shape") == 1


def test_a_reader_stays_before_a_node_that_writes_its_input() -> None:
    builder = GraphBuilder()
    x = builder.data(3, 3)
    buffer = builder.op("Neg", {"x": x})
    last = builder.op("Sub", {"x1": _sized(builder, x, 0), "x2": builder.const(1)})
    before = builder.op("Gather", {"x": buffer, "indices": last})
    fed = {"var": buffer, "indices": builder.const([[2]]), "updates": builder.const([[7.0, 7, 7]], torch.float32)}
    written = builder.op("ScatterNdUpdate", fed, outputs=("var",))
    assert lean(builder.output(before, written), torch.ones(3, 3)) == ["Neg", "Gather", "ScatterNdUpdate"]


def test_a_new_node_gets_a_unique_name() -> None:
    """Replacements are stored by name, so that a reused name would be ambiguous."""
    builder = GraphBuilder()
    x = builder.data(-1, 6)
    graph_def = builder.output(builder.op("Neg", {"x": x}))
    graph = Graph(graph_def)
    first = get_constant(graph, "int64", [1])
    graph.drop({first.rpartition(":")[0]})
    assert get_constant(graph, "int64", [2]) != first


def test_a_replaced_constant_gets_no_readers() -> None:
    builder = GraphBuilder()
    one, other = builder.const([3]), builder.const([3])
    x = builder.data(3)
    graph = Graph(builder.output(builder.op("Neg", {"x": x}), builder.op("Add", {"x1": one, "x2": other})))
    assert graph.replace(other, one)
    assert get_constant(graph, "int64", [3]) == one


def test_passes_are_selected_by_a_list_or_off() -> None:
    with passes.use("off"):
        assert passes.current() == ()
    with passes.use("shapes, constants"):
        assert passes.current() == ("constants", "shapes")
    with passes.use("on"):
        assert passes.current() == passes.NAMES


def test_an_unknown_pass_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(passes.VARIABLE, "constants,fusion")
    with pytest.raises(ValueError, match=r"GRAPH_QUANT_PASSES: must be on, off or some of .*, got 'fusion'"):
        passes.current()


def test_old_names_are_accepted_with_one_warning() -> None:
    renames = "'equal' is now 'cse', 'dead' is now 'dce', 'heads' is now 'gqa_broadcast'"
    with pytest.warns(FutureWarning, match=renames), passes.use("equal,dead,heads,casts"):
        assert passes.current() == ("cse", "casts", "gqa_broadcast", "dce")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with passes.use("equal,dead,heads,casts"):
            assert passes.current() == ("cse", "casts", "gqa_broadcast", "dce")


def test_old_names_are_accepted_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(passes.VARIABLE, "dead")
    with pytest.warns(FutureWarning, match="GRAPH_QUANT_PASSES: deprecated names of passes: 'dead' is now 'dce'"):
        assert passes.current() == ("dce",)


@pytest.mark.parametrize("kind", ["HcomSend", "PrintV2", "SomethingNew"])
def test_nodes_that_are_not_pure_are_kept(kind: str) -> None:
    builder = GraphBuilder()
    x = builder.data(3)
    builder.op(kind, {"x": builder.op("Neg", {"x": x})})
    builder.op("Exp", {"x": x})
    graph = builder.output(builder.op("Relu", {"x": x}))
    passes.run(graph, ("dce",))
    assert types(graph) == ["Neg", kind, "Relu"]


def test_integer_overflow_is_not_folded() -> None:
    """Sums and casts wrap around; a wider dtype must not bring back the unwrapped value."""
    builder = GraphBuilder()
    narrow = builder.op("Cast", {"x": builder.const([-(2**40)])}, dst_type="int32")
    largest = builder.const([2**31 - 1], torch.int32)
    total = builder.op("Add", {"x1": largest, "x2": builder.const([1], torch.int32)})
    longest = builder.op("Mul", {"x1": builder.const([2**62]), "x2": builder.const([4])})
    less = builder.op("Sub", {"x1": longest, "x2": builder.const([1])})
    wide = [builder.op("Cast", {"x": name}, dst_type="int64") for name in (narrow, total)]
    lean(builder.output(*(builder.op("Neg", {"x": name}) for name in (*wide, less))))


def test_values_broadcast_along_columns_are_not_tracked() -> None:
    builder = GraphBuilder()
    spread = builder.op("Add", {"x1": builder.const([[1], [2], [3]]), "x2": builder.const([10, 20, 30])})
    lean(builder.output(builder.op("Neg", {"x": builder.op("Reshape", {"x": spread, "shape": builder.const([9])})})))


@pytest.mark.parametrize("keep", [False, True])
def test_reduction_of_a_scalar(keep: bool) -> None:
    builder = GraphBuilder()
    x = builder.data()
    total = builder.op("ReduceSum", {"x": x, "axes": builder.const([0])}, keep_dims=keep)
    lean(builder.output(builder.op("Unsqueeze", {"x": total}, axes=[0])), torch.tensor(2.0))


def test_a_truncating_cast_of_a_constant_is_not_folded() -> None:
    builder = GraphBuilder()
    x = builder.op("Cast", {"x": builder.op("Cast", {"x": builder.const([-1])}, dst_type="uint8")}, dst_type="int64")
    lean(builder.output(builder.op("Neg", {"x": x})))


def attention(builder: GraphBuilder, key: str, value: str, **attributes: Any) -> Any:
    """An attention node over keys and values, with six query heads by default."""
    attrs = {"head_num": 6, "input_layout": "BNSD", "scale_value": 0.25, **attributes}
    fed = {"query": builder.data(2, attrs["head_num"], 3, 8), "key": key, "value": value}
    outputs = ("softmax_max", "softmax_sum", "softmax_out", "attention_out")
    return builder.op("FlashAttentionScore", fed, outputs=outputs, **attrs).replace(":0", ":3")


def repeated(builder: GraphBuilder, x: str, single: Sequence[int], many: Sequence[int]) -> str:
    """A tensor of heads repeated three times, each head or all of them."""
    apart = builder.op("Reshape", {"x": x, "shape": builder.const(single)})
    spread = builder.op("BroadcastTo", {"x": apart, "shape": builder.const(many)})
    return builder.op("Reshape", {"x": spread, "shape": builder.const([2, -1, 5, 8])})


EACH, ALL = ([2, 2, 1, 5, 8], [2, 2, 3, 5, 8]), ([2, 1, 2, 5, 8], [2, 3, 2, 5, 8])


@pytest.mark.parametrize(
    ("key", "value", "left"), [(EACH, EACH, 0), (ALL, ALL, 2), (EACH, ALL, 2)], ids=["each", "all", "both ways"]
)
def test_the_gqa_broadcast_is_removed(key: Any, value: Any, left: int) -> None:
    """Adjacent copies of each head are shared by query heads; a repetition of all heads is not."""
    builder = GraphBuilder()
    heads = builder.data(2, 2, 5, 8), builder.data(2, 2, 5, 8)
    graph = builder.output(
        attention(builder, *(repeated(builder, x, *form) for x, form in zip(heads, (key, value), strict=True)))
    )
    inputs = torch.randn(2, 2, 5, 8), torch.randn(2, 2, 5, 8), torch.randn(2, 6, 3, 8)
    assert lean(graph, *inputs).count("BroadcastTo") == left


@pytest.mark.parametrize(("single", "left"), [([2, 3, 1, 5, 8], 0), ([2, 1, 3, 5, 8], 2)], ids=["each", "all"])
def test_the_gqa_broadcast_with_as_many_copies_as_heads(single: list[int], left: int) -> None:
    builder = GraphBuilder()
    heads = [repeated(builder, builder.data(2, 3, 5, 8), single, [2, 3, 3, 5, 8]) for _ in range(2)]
    graph = builder.output(attention(builder, *heads, head_num=9))
    inputs = torch.randn(2, 3, 5, 8), torch.randn(2, 3, 5, 8), torch.randn(2, 9, 3, 8)
    assert lean(graph, *inputs).count("BroadcastTo") == left


def test_the_gqa_broadcast_is_kept_where_memory_is_written() -> None:
    builder = GraphBuilder()
    cache = builder.data(2, 2, 5, 8)
    key = repeated(builder, cache, *EACH)
    rows = builder.op("Reshape", {"x": cache, "shape": builder.const([20, 8])})
    fed = {"var": rows, "indices": builder.const([[0]]), "updates": builder.data(1, 8)}
    written = builder.op("ScatterNdUpdate", fed, outputs=("var",))
    graph = builder.output(attention(builder, key, key), written)
    passes.run(graph, passes.NAMES)
    assert count(graph, "BroadcastTo") == 1


def test_the_gqa_broadcast_is_kept_in_other_layouts() -> None:
    builder = GraphBuilder()
    heads = repeated(builder, builder.data(2, 2, 5, 8), *EACH)
    graph = builder.output(attention(builder, heads, heads, head_num=3, input_layout="BSND"))
    passes.run(graph, passes.NAMES)
    assert count(graph, "BroadcastTo") == 1


def test_a_broadcast_column_is_not_tracked_as_a_row() -> None:
    builder = GraphBuilder()
    spread = builder.op("Add", {"x1": builder.const([[1, 2], [3, 4]]), "x2": builder.const([[10], [20]])})
    lean(builder.output(builder.op("Neg", {"x": builder.op("Reshape", {"x": spread, "shape": builder.const([4])})})))


@pytest.mark.parametrize("shape", [(3, 0, 4), (0, 3, 4), (3, 5, 4)])
def test_sizes_are_not_copied_where_one_may_be_zero(shape: tuple[int, ...]) -> None:
    """For an empty input without -1, a 0 in a shape is 0."""
    builder = GraphBuilder()
    x = builder.data(-1, -1, 4)
    parts = [_sized(builder, x, 0), _sized(builder, x, 1), builder.const(2), builder.const(2)]
    wanted = builder.op("Pack", {f"x{index}": part for index, part in enumerate(parts)}, axis=0, N=4)
    lean(builder.output(builder.op("Reshape", {"x": x, "shape": wanted})), torch.zeros(shape))


def test_a_copy_of_a_view_is_made_before_its_memory_is_written() -> None:
    builder = GraphBuilder()
    x, index, update = builder.data(4, 2), builder.data(1, 1, dtype="int64"), builder.data(1, 2)
    buffer = builder.op("Neg", {"x": x})
    views = [
        builder.op("Reshape", {"x": buffer, "shape": builder.const([8])}),
        builder.op("Transpose", {"x": buffer, "perm": builder.const([1, 0])}),
    ]
    copies = [builder.op("Cast", {"x": view}, dst_type="float32") for view in views]
    fed = {"var": buffer, "indices": index, "updates": update}
    written = builder.op("ScatterNdUpdate", fed, outputs=("var",))
    after = builder.op("Neg", {"x": builder.op("Identity", {"x": written})})
    graph = builder.output(after, *copies, written)
    inputs = torch.ones(4, 2), torch.zeros(1, 1, dtype=torch.int64), torch.full((1, 2), 7.0)
    left = lean(graph, *inputs)
    assert left.count("Cast") == 2
    assert "Identity" not in left, "what comes after the write may be read as it is"


def test_an_index_out_of_range_is_not_folded() -> None:
    builder = GraphBuilder()
    size = builder.op("Shape", {"x": builder.data(-1, 4)}, dtype="int64")
    graph = builder.output(builder.op("Neg", {"x": builder.op("Gather", {"x": size, "indices": builder.const([-1])})}))
    passes.run(graph, passes.NAMES)
    with pytest.raises(IndexError):
        results(graph, torch.zeros(3, 4))


def test_a_cast_of_a_symbolic_argument_is_not_folded() -> None:
    """A size fits into int32, an integer argument need not."""
    builder = GraphBuilder()
    x, count = builder.data(-1), builder.data(dtype="int64")
    narrow = builder.op("Cast", {"x": count}, dst_type="int32")
    graph = builder.output(builder.op("Neg", {"x": builder.op("Cast", {"x": narrow}, dst_type="int64")}), x)
    input_info = {x[:-2]: InputInfo((symbol("s0"),)), count[:-2]: InputInfo((), (symbol("s1"),))}
    passes.run(graph, passes.NAMES, input_info)
    assert results(graph, torch.zeros(3), torch.tensor(2**40 + 5))[0].item() == -5
