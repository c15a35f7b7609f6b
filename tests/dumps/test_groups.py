"""The groups of the page, and what it shows inside other nodes."""

from __future__ import annotations

from pathlib import Path

import pytest
from graph_quant import dumps
from graph_quant.dumps.render.page_groups import Groups, is_parameter
from graph_quant.ge.protobuf import new_graph

from tests.support.layered_dump import layered

DATA = Path(__file__).parent / "data"


def test_called_graphs_are_inside_their_callers():
    dump = dumps.load(DATA / "small_ge_proto.txt")
    groups = Groups(dump)
    caller = groups.of(dump, dump.nodes["branch"])
    assert groups.list[caller]["kind"] == "call"
    called = [group["label"] for group in groups.list if group["parent"] == caller]
    assert called == [f"{call.role} {call.graph.name}" for call in dump.calls["branch"]]
    inner = dump.calls["branch"][0].graph
    assert {groups.list[groups.of(inner, node)]["parent"] for node in inner.order} == {caller}


def test_every_repetition_is_a_group_of_its_own(tmp_path):
    (tmp_path / "model.txt").write_text(layered(3))
    dump = dumps.load(tmp_path / "model.txt")
    groups = Groups(dump)
    assert [(group["label"], group["parent"], group.get("times")) for group in groups.list[1:]] == [
        ("block of 4 nodes", 0, 3), ("block 0", 1, None), ("block 1", 1, None), ("block 2", 1, None)
    ]  # fmt: skip
    inline = {node.name for node in dump.order if groups.is_inline(dump, node)}
    assert inline == {"w0", "s0", "w1", "s1", "w2", "s2"}
    assert groups.list[groups.of(dump, dump.nodes["w1"])]["label"] == "block 1"
    assert groups.of(dump, dump.nodes["x"]) == 0


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ({"w": ("Data",), "x": ("Data",), "y": ("MatMulV2", "x", "w")}, {"w"}),
        ({"w": ("Data",), "t": ("Transpose", "w"), "x": ("Data",), "y": ("MatMulV2", "x", "t")}, {"w"}),
        ({"table": ("Data",), "ids": ("Data",), "y": ("GatherV2", "table", "ids")}, {"table"}),
        ({"x": ("Data",), "a": ("Relu", "x"), "y": ("Add", "a", "x")}, set()),  # it flows on both ways
        ({"x": ("Data",), "c": ("Const",), "y": ("Mul", "c", "x")}, {"c"}),
        ({"w": ("Variable",), "y": ("Relu", "w")}, {"w"}),
        ({"x": ("Data",), "y": ("Relu", "x")}, set()),
    ],
    ids=["weight", "transposed", "table", "residual", "constant", "variable", "input"],
)
def test_weights_and_activations_are_distinguished(nodes, expected):
    graph = new_graph("small")
    for name, (kind, *inputs) in (nodes | {"end": ("NetOutput", "y")}).items():
        op = graph.op.add(name=name, type=kind, input=[f"{producer}:0" for producer in inputs])
        op.output_desc.add(name="y")
        for producer in inputs:
            op.input_desc.add(name=producer)
    dump = dumps.from_graph(graph)
    assert {name for name, node in dump.nodes.items() if is_parameter(dump, node)} == expected
