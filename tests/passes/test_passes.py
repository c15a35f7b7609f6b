"""Every pass: what it takes out, what it must leave, and that results keep every bit."""

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
    """The types that are left; results with and without must be equal."""
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


def test_equal_constants_are_kept_once() -> None:
    made = GraphBuilder()
    x = made.data(3)
    for value, dtype in ((1, torch.float32), (1, torch.float32), (2, torch.float32), (0.0, torch.float32)):
        x = made.op("Add", {"x1": x, "x2": made.const(value, dtype)})
    x = made.op("Add", {"x1": x, "x2": made.const(-0.0, torch.float32)})
    graph = made.output(x)
    lean(graph, torch.randn(3), through=("constants", "dce"))
    assert count(graph, "Const") == 4, "1, 2, 0 and -0"


def test_equal_computations_are_done_once_but_random_ones_are_not() -> None:
    made = GraphBuilder()
    x = made.data(4)
    one, other = (made.op("Neg", {"x": made.op("Neg", {"x": x})}) for _ in range(2))
    graph = made.output(made.op("Mul", {"x1": one, "x2": other}))
    assert lean(graph, torch.randn(4)) == ["Neg", "Neg", "Mul"]
    made = GraphBuilder()
    shape = made.const([4])
    drawn = [
        made.op("StatelessRandomUniformV2", {"shape": shape, "key": made.const([1]), "counter": shape, "alg": shape})
        for _ in range(2)
    ]
    graph = made.output(*drawn)
    passes.run(graph, passes.NAMES)
    assert count(graph, "StatelessRandomUniformV2") == 2


def _casts(*dtypes: str, start: str) -> Any:
    made = GraphBuilder()
    x = made.data(5, dtype=start)
    result = x
    for dtype in dtypes:
        result = made.op("Cast", {"x": result}, dst_type=dtype)
    return made.output(made.op("Neg", {"x": result}))


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
def test_a_cast_goes_only_where_it_keeps_every_value(start: str, casts: list[str], left: int) -> None:
    dtype = getattr(torch, start)
    x = HALVES.to(dtype) if dtype.is_floating_point else torch.tensor([0, 1, -128, 127, 99]).to(dtype)
    if start in ("int32", "int64"):
        x = x * (2**24 + 1) if start == "int32" else x + 2**31
    assert lean(_casts(*casts, start=start), x).count("Cast") == left


def test_shapes_that_undo_each_other_go() -> None:
    made = GraphBuilder()
    x = made.data(2, -1, 4)
    flat = made.op("Reshape", {"x": x, "shape": made.const([-1, 4])})
    back = made.op("Reshape", {"x": flat, "shape": made.const([2, -1, 4])})
    put = made.op("Squeeze", {"x": made.op("Unsqueeze", {"x": back}, axes=[1])}, axis=[1])
    graph = made.output(made.op("Neg", {"x": put}))
    assert lean(graph, torch.randn(2, 3, 4)) == ["Neg"]


def test_shapes_that_follow_each_other_become_one() -> None:
    made = GraphBuilder()
    x = made.data(2, -1, 4)
    one = made.op("Reshape", {"x": x, "shape": made.const([-1, 4])})
    two = made.op("Unsqueeze", {"x": made.op("Unsqueeze", {"x": one}, axes=[0])}, axes=[-1])
    graph = made.output(made.op("Neg", {"x": two}))
    assert lean(graph, torch.randn(2, 3, 4)) == ["Reshape", "Neg"]
    made = GraphBuilder()
    x = made.data(-1, -1)
    graph = made.output(made.op("Unsqueeze", {"x": made.op("Unsqueeze", {"x": x}, axes=[1])}, axes=[0, -1]))
    assert lean(graph, torch.randn(2, 3)) == ["Unsqueeze"]
    assert list(graph.op[1].attr["axes"].list.i) == [0, 2, 4]


def test_another_order_of_elements_stays() -> None:
    """[2, s] to [s, 2] and back is nothing, with a transpose between it is something."""
    made = GraphBuilder()
    x = made.data(2, -1)
    turned = made.op("Transpose", {"x": x, "perm": made.const([1, 0])})
    graph = made.output(made.op("Neg", {"x": made.op("Reshape", {"x": turned, "shape": made.const([2, -1])})}))
    assert lean(graph, torch.randn(2, 3)) == ["Transpose", "Reshape", "Neg"]


def _sized(made: GraphBuilder, x: str, axis: int) -> str:
    return made.op("Gather", {"x": made.op("Shape", {"x": x}, dtype="int64"), "indices": made.const(axis)})


def test_sizes_that_are_known_are_not_computed() -> None:
    made = GraphBuilder()
    x = made.data(3, -1, 8)
    wanted = [made.op("Mul", {"x1": _sized(made, x, 0), "x2": _sized(made, x, 1)}), _sized(made, x, 2)]
    shape = made.op("Pack", {"x0": wanted[0], "x1": wanted[1]}, axis=0, N=2)
    graph = made.output(made.op("Reshape", {"x": x, "shape": shape}))
    assert lean(graph, torch.randn(3, 5, 8)) == ["Reshape"]
    assert count(graph, "Const") == 1


def test_equal_sizes_are_computed_once() -> None:
    made = GraphBuilder()
    x, y = made.data(-1, -1), made.data(1, 1)

    def doubled(axis: int) -> str:
        size = _sized(made, x, axis)
        return made.op("Add", {"x1": size, "x2": size}) if axis else made.op("Mul", {"x1": made.const(2), "x2": size})

    packs = [made.op("Pack", {"x0": doubled(0), "x1": doubled(1)}, axis=0, N=2) for _ in range(3)]
    parts = [made.op("BroadcastTo", {"x": y, "shape": pack}) for pack in packs]
    graph = made.output(made.op("Add", {"x1": made.op("Add", {"x1": parts[0], "x2": parts[1]}), "x2": parts[2]}))
    left = lean(graph, torch.randn(3, 5), torch.randn(1, 1))
    assert (left.count("Pack"), left.count("Shape"), left.count("Gather"), left.count("BroadcastTo")) == (1, 1, 2, 1)


def test_a_size_that_may_be_zero_is_not_inferred_beside_another() -> None:
    """-1 stands for a quotient: 0 elements, divided by 0, are no size."""
    made = GraphBuilder()
    x = made.data(-1, -1)
    flat = made.op("Reshape", {"x": x, "shape": made.const([-1])})
    shape = made.op("Pack", {"x0": _sized(made, x, 1), "x1": _sized(made, x, 0)}, axis=0, N=2)
    graph = made.output(made.op("Reshape", {"x": flat, "shape": shape}))
    passes.run(graph, passes.NAMES)
    assert types(graph).count("Pack") == 1


def test_a_reshape_of_nothing_copies_no_size() -> None:
    made = GraphBuilder()
    groups = made.op("Reshape", {"x": made.data(0, 6, 10), "shape": made.const([1, 0, 1])})
    graph = made.output(made.op("Unsqueeze", {"x": groups}, axes=[3]))
    assert lean(graph, torch.randn(0, 6, 10)) == ["Reshape", "Unsqueeze"]


def _product(kind: str, attribute: str, *, turned: bool, **attributes: Any) -> Any:
    made = GraphBuilder()
    x1, x2 = made.data(3, 4), made.data(5, 4)
    right = made.op("Transpose", {"x": x2, "perm": made.const([1, 0])})
    return made.output(made.op(kind, {"x1": x1, "x2": right}, **{attribute: turned}, **attributes))


@pytest.mark.parametrize("kind", ["MatMul", "BatchMatMul", "BatchMatMulV2"])
def test_a_product_transposes_by_itself(kind: str) -> None:
    attribute = "transpose_x2" if kind == "MatMul" else "adj_x2"
    graph = _product(kind, attribute, turned=False)
    assert lean(graph, torch.randn(3, 4), torch.randn(5, 4)) == [kind]
    assert next(op for op in graph.op if op.type == kind).attr[attribute].b


def test_a_product_transposes_int8_weights_by_itself() -> None:
    made = GraphBuilder()
    x1, x2, scale = made.data(3, 4, dtype="int8"), made.data(5, 4, dtype="int8"), made.data(5)
    right = made.op("Transpose", {"x": x2, "perm": made.const([1, 0])})
    product = made.op(
        "QuantBatchMatmulV3",
        {"x1": x1, "x2": right, "scale": scale},
        dtype="bfloat16",
        transpose_x1=False,
        transpose_x2=False,
    )
    inputs = [torch.randint(-128, 128, size, dtype=torch.int8) for size in ((3, 4), (5, 4))]
    assert lean(made.output(product), *inputs, torch.rand(5)) == ["QuantBatchMatmulV3"]


def test_transposes_that_undo_each_other_go_and_others_join() -> None:
    made = GraphBuilder()
    x = made.data(2, 3, 4)
    turn = made.const([1, 2, 0])
    twice = made.op("Transpose", {"x": made.op("Transpose", {"x": x, "perm": turn}), "perm": turn})
    thrice = made.op("Transpose", {"x": twice, "perm": turn})
    graph = made.output(made.op("Neg", {"x": twice}), made.op("Neg", {"x": thrice}))
    assert lean(graph, torch.randn(2, 3, 4)) == ["Transpose", "Neg", "Neg"]


def test_dimensions_of_one_element_are_added_before_a_transpose() -> None:
    made = GraphBuilder()
    x = made.data(-1, 32)
    heads = made.op("Reshape", {"x": x, "shape": made.const([-1, 8, 4])})
    turned = made.op("Transpose", {"x": heads, "perm": made.const([1, 0, 2])})
    graph = made.output(made.op("Reshape", {"x": turned, "shape": made.const([1, 8, 1, -1, 4])}))
    assert lean(graph, torch.randn(6, 32)) == ["Reshape", "Transpose"]


@pytest.mark.parametrize("viewed", [False, True], ids=["plain", "viewed"])
def test_int4_are_not_packed_to_be_unpacked(viewed: bool) -> None:
    made = GraphBuilder()
    x = made.data(2, -1, 16, dtype="float16")
    quantised = made.op("DynamicQuant", {"x": x}, outputs=("y", "scale"), dst_type="int4")
    eights = made.op("Reshape", {"x": quantised, "shape": made.const([0, 0, -1, 8])})
    packed = made.op("Bitcast", {"x": eights}, type="int32")
    if viewed:
        packed = made.op("Reshape", {"x": packed, "shape": made.const([-1, 2])})
    again = made.op("Bitcast", {"x": packed}, type="int4")
    elements = made.op("Reshape", {"x": again, "shape": made.const([0, -1] if viewed else [0, 0, -1])})
    graph = made.output(made.op("Neg", {"x": elements}))
    left = lean(graph, torch.randn(2, 3, 16).half())
    assert left == ["DynamicQuant", *["Reshape"] * viewed, "Neg"]


def test_what_is_written_in_place_stays_apart() -> None:
    """Two equal buffers, of which one is written to; and a copy from before the other is."""
    made = GraphBuilder()
    x, index, update = made.data(4, 2), made.data(1, 1, dtype="int64"), made.data(1, 2)
    one, other = (made.op("Neg", {"x": x}) for _ in range(2))
    kept = made.op("Identity", {"x": one})
    written = made.op("ScatterNdUpdate", {"var": one, "indices": index, "updates": update}, outputs=("var",))
    graph = made.output(written, made.op("Add", {"x1": kept, "x2": other}))
    before = text_format.MessageToString(graph)
    passes.run(graph, passes.NAMES)
    assert text_format.MessageToString(graph) == before


def test_control_edges_and_their_ends_stay() -> None:
    made = GraphBuilder()
    x = made.data(4)
    one, other = (made.op("Identity", {"x": x}) for _ in range(2))
    total = made.op("Add", {"x1": one, "x2": other})
    made.control(one, total)
    graph = made.output(total)
    assert lean(graph, torch.randn(4)) == ["Identity", "Add"]
    assert graph.op[2].input[2] == f"{one[:-2]}:-1"


def test_outputs_do_not_become_inputs_or_each_other() -> None:
    made = GraphBuilder()
    x = made.data(4)
    alone = made.op("Cast", {"x": x}, dst_type="float32")
    pair = [made.op("Neg", {"x": x}) for _ in range(2)]
    graph = made.output(alone, *pair)
    assert lean(graph, torch.randn(4)) == ["Cast", "Neg", "Neg"]


def test_inputs_keep_their_places_and_dead_nodes_go() -> None:
    made = GraphBuilder()
    x, unused = made.data(4), made.data(2)
    made.op("Neg", {"x": unused})
    graph = made.output(made.op("Neg", {"x": x}))
    assert lean(graph, torch.randn(4), torch.randn(2)) == ["Neg"]
    assert [op.attr["index"].i for op in graph.op if op.type == "Data"] == [0, 1]


def test_producers_stand_before_their_readers() -> None:
    made = GraphBuilder()
    x = made.data(3, -1)
    shape = made.op("Pack", {"x0": _sized(made, x, 1), "x1": made.const(3)}, axis=0, N=2)
    graph = made.output(made.op("Reshape", {"x": x, "shape": shape}))
    passes.run(graph, passes.NAMES)
    seen: set[str] = set()
    for op in graph.op:
        assert {reference.rpartition(":")[0] for reference in op.input if reference} <= seen
        seen.add(op.name)


def test_readers_may_stand_before_what_they_read() -> None:
    """In a file nodes have any order; a size that stands for another must not be computed from it."""
    made = GraphBuilder()
    x = made.data(-1, 4)
    first = made.op("BroadcastTo", {"x": made.const(1), "shape": made.op("Shape", {"x": x}, dtype="int64")})
    again = made.op("Shape", {"x": made.op("Neg", {"x": first})}, dtype="int64")
    made.output(made.op("BroadcastTo", {"x": first, "shape": again}))
    turned = GraphDef(name="turned", op=list(reversed(made.graph.op)))
    assert lean(turned, torch.zeros(3, 4)).count("Shape") == 1


def test_a_reader_stays_before_the_node_that_writes() -> None:
    made = GraphBuilder()
    x = made.data(3, 3)
    buffer = made.op("Neg", {"x": x})
    last = made.op("Sub", {"x1": _sized(made, x, 0), "x2": made.const(1)})
    before = made.op("Gather", {"x": buffer, "indices": last})
    fed = {"var": buffer, "indices": made.const([[2]]), "updates": made.const([[7.0, 7, 7]], torch.float32)}
    written = made.op("ScatterNdUpdate", fed, outputs=("var",))
    assert lean(made.output(before, written), torch.ones(3, 3)) == ["Neg", "Gather", "ScatterNdUpdate"]


def test_a_new_node_never_takes_a_name_that_was_there() -> None:
    """What stands for a result is kept by name, and a name that comes back would stand for two."""
    made = GraphBuilder()
    x = made.data(-1, 6)
    graph_def = made.output(made.op("Neg", {"x": x}))
    graph = Graph(graph_def)
    first = get_constant(graph, "int64", [1])
    graph.drop({first.rpartition(":")[0]})
    assert get_constant(graph, "int64", [2]) != first


def test_a_constant_that_another_stands_for_is_not_read_again() -> None:
    made = GraphBuilder()
    one, other = made.const([3]), made.const([3])
    x = made.data(3)
    graph = Graph(made.output(made.op("Neg", {"x": x}), made.op("Add", {"x1": one, "x2": other})))
    assert graph.replace(other, one)
    assert get_constant(graph, "int64", [3]) == one


def test_a_list_and_off_choose() -> None:
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
    made = GraphBuilder()
    x = made.data(3)
    made.op(kind, {"x": made.op("Neg", {"x": x})})
    made.op("Exp", {"x": x})
    graph = made.output(made.op("Relu", {"x": x}))
    passes.run(graph, ("dce",))
    assert types(graph) == ["Neg", kind, "Relu"]


def test_integers_beyond_their_dtype_are_left_to_the_graph() -> None:
    """Sums and casts wrap around; what was computed without wrapping must not come back by a wider dtype."""
    made = GraphBuilder()
    narrow = made.op("Cast", {"x": made.const([-(2**40)])}, dst_type="int32")
    largest = made.const([2**31 - 1], torch.int32)
    total = made.op("Add", {"x1": largest, "x2": made.const([1], torch.int32)})
    longest = made.op("Mul", {"x1": made.const([2**62]), "x2": made.const([4])})
    less = made.op("Sub", {"x1": longest, "x2": made.const([1])})
    wide = [made.op("Cast", {"x": each}, dst_type="int64") for each in (narrow, total)]
    lean(made.output(*(made.op("Neg", {"x": each}) for each in (*wide, less))))


def test_numbers_that_are_spread_over_a_matrix_are_not_taken_for_its_rows() -> None:
    made = GraphBuilder()
    spread = made.op("Add", {"x1": made.const([[1], [2], [3]]), "x2": made.const([10, 20, 30])})
    lean(made.output(made.op("Neg", {"x": made.op("Reshape", {"x": spread, "shape": made.const([9])})})))


@pytest.mark.parametrize("keep", [False, True])
def test_a_number_without_dimensions_is_reduced(keep: bool) -> None:
    made = GraphBuilder()
    x = made.data()
    total = made.op("ReduceSum", {"x": x, "axes": made.const([0])}, keep_dims=keep)
    lean(made.output(made.op("Unsqueeze", {"x": total}, axes=[0])), torch.tensor(2.0))


def test_a_number_that_is_cut_off_is_not_the_number() -> None:
    made = GraphBuilder()
    x = made.op("Cast", {"x": made.op("Cast", {"x": made.const([-1])}, dst_type="uint8")}, dst_type="int64")
    lean(made.output(made.op("Neg", {"x": x})))


def attention(made: GraphBuilder, key: str, value: str, **attributes: Any) -> Any:
    """A graph of attention of so many heads, six unless said, over keys and values."""
    given = {"head_num": 6, "input_layout": "BNSD", "scale_value": 0.25, **attributes}
    fed = {"query": made.data(2, given["head_num"], 3, 8), "key": key, "value": value}
    outputs = ("softmax_max", "softmax_sum", "softmax_out", "attention_out")
    return made.op("FlashAttentionScore", fed, outputs=outputs, **given).replace(":0", ":3")


def repeated(made: GraphBuilder, x: str, single: Sequence[int], many: Sequence[int]) -> str:
    """A tensor of heads with three copies of each, or of all."""
    apart = made.op("Reshape", {"x": x, "shape": made.const(single)})
    spread = made.op("BroadcastTo", {"x": apart, "shape": made.const(many)})
    return made.op("Reshape", {"x": spread, "shape": made.const([2, -1, 5, 8])})


EACH, ALL = ([2, 2, 1, 5, 8], [2, 2, 3, 5, 8]), ([2, 1, 2, 5, 8], [2, 3, 2, 5, 8])


@pytest.mark.parametrize(
    ("key", "value", "left"), [(EACH, EACH, 0), (ALL, ALL, 2), (EACH, ALL, 2)], ids=["each", "all", "both ways"]
)
def test_heads_that_attention_shares_are_not_repeated(key: Any, value: Any, left: int) -> None:
    """Three copies of each head side by side are shared by three heads of queries; all heads three times are not."""
    made = GraphBuilder()
    heads = made.data(2, 2, 5, 8), made.data(2, 2, 5, 8)
    graph = made.output(
        attention(made, *(repeated(made, x, *form) for x, form in zip(heads, (key, value), strict=True)))
    )
    inputs = torch.randn(2, 2, 5, 8), torch.randn(2, 2, 5, 8), torch.randn(2, 6, 3, 8)
    assert lean(graph, *inputs).count("BroadcastTo") == left


@pytest.mark.parametrize(("single", "left"), [([2, 3, 1, 5, 8], 0), ([2, 1, 3, 5, 8], 2)], ids=["each", "all"])
def test_as_many_copies_as_heads_do_not_hide_what_is_repeated(single: list[int], left: int) -> None:
    made = GraphBuilder()
    heads = [repeated(made, made.data(2, 3, 5, 8), single, [2, 3, 3, 5, 8]) for _ in range(2)]
    graph = made.output(attention(made, *heads, head_num=9))
    inputs = torch.randn(2, 3, 5, 8), torch.randn(2, 3, 5, 8), torch.randn(2, 9, 3, 8)
    assert lean(graph, *inputs).count("BroadcastTo") == left


def test_heads_stay_repeated_where_memory_is_written() -> None:
    made = GraphBuilder()
    cache = made.data(2, 2, 5, 8)
    key = repeated(made, cache, *EACH)
    rows = made.op("Reshape", {"x": cache, "shape": made.const([20, 8])})
    fed = {"var": rows, "indices": made.const([[0]]), "updates": made.data(1, 8)}
    written = made.op("ScatterNdUpdate", fed, outputs=("var",))
    graph = made.output(attention(made, key, key), written)
    passes.run(graph, passes.NAMES)
    assert count(graph, "BroadcastTo") == 1


def test_heads_stay_repeated_in_other_layouts() -> None:
    made = GraphBuilder()
    heads = repeated(made, made.data(2, 2, 5, 8), *EACH)
    graph = made.output(attention(made, heads, heads, head_num=3, input_layout="BSND"))
    passes.run(graph, passes.NAMES)
    assert count(graph, "BroadcastTo") == 1


def test_a_column_is_not_taken_for_a_row() -> None:
    made = GraphBuilder()
    spread = made.op("Add", {"x1": made.const([[1, 2], [3, 4]]), "x2": made.const([[10], [20]])})
    lean(made.output(made.op("Neg", {"x": made.op("Reshape", {"x": spread, "shape": made.const([4])})})))


@pytest.mark.parametrize("shape", [(3, 0, 4), (0, 3, 4), (3, 5, 4)])
def test_sizes_are_not_copied_where_one_may_be_zero(shape: tuple[int, ...]) -> None:
    """Of nothing, with nothing to infer, 0 in a shape is 0."""
    made = GraphBuilder()
    x = made.data(-1, -1, 4)
    parts = [_sized(made, x, 0), _sized(made, x, 1), made.const(2), made.const(2)]
    wanted = made.op("Pack", {f"x{place}": part for place, part in enumerate(parts)}, axis=0, N=4)
    lean(made.output(made.op("Reshape", {"x": x, "shape": wanted})), torch.zeros(shape))


def test_a_copy_of_a_view_is_made_before_its_memory_is_written() -> None:
    made = GraphBuilder()
    x, index, update = made.data(4, 2), made.data(1, 1, dtype="int64"), made.data(1, 2)
    buffer = made.op("Neg", {"x": x})
    views = [
        made.op("Reshape", {"x": buffer, "shape": made.const([8])}),
        made.op("Transpose", {"x": buffer, "perm": made.const([1, 0])}),
    ]
    copies = [made.op("Cast", {"x": view}, dst_type="float32") for view in views]
    fed = {"var": buffer, "indices": index, "updates": update}
    written = made.op("ScatterNdUpdate", fed, outputs=("var",))
    after = made.op("Neg", {"x": made.op("Identity", {"x": written})})
    graph = made.output(after, *copies, written)
    inputs = torch.ones(4, 2), torch.zeros(1, 1, dtype=torch.int64), torch.full((1, 2), 7.0)
    left = lean(graph, *inputs)
    assert left.count("Cast") == 2
    assert "Identity" not in left, "what comes after the write may be read as it is"


def test_a_place_that_is_not_there_is_left_to_the_graph() -> None:
    made = GraphBuilder()
    size = made.op("Shape", {"x": made.data(-1, 4)}, dtype="int64")
    graph = made.output(made.op("Neg", {"x": made.op("Gather", {"x": size, "indices": made.const([-1])})}))
    passes.run(graph, passes.NAMES)
    with pytest.raises(IndexError):
        results(graph, torch.zeros(3, 4))


def test_a_number_of_the_callers_may_be_cut_off() -> None:
    """A size fits into int32, another number need not."""
    made = GraphBuilder()
    x, count = made.data(-1), made.data(dtype="int64")
    narrow = made.op("Cast", {"x": count}, dst_type="int32")
    graph = made.output(made.op("Neg", {"x": made.op("Cast", {"x": narrow}, dst_type="int64")}), x)
    given = {x[:-2]: InputInfo((symbol("s0"),)), count[:-2]: InputInfo((), (symbol("s1"),))}
    passes.run(graph, passes.NAMES, given)
    assert results(graph, torch.zeros(3), torch.tensor(2**40 + 5))[0].item() == -5
