"""The other forms of a graph: ONNX with typed edges, Graphviz, JSON."""

from __future__ import annotations

import json
from pathlib import Path

import onnx

DATA = Path(__file__).parent / "data"
INT4 = DATA / "upstream_group_quant_int4.txt"


def test_onnx_has_typed_edges_with_symbols(command, tmp_path):
    code, _, _ = command("inspect", INT4, "--format", "onnx", "-o", tmp_path / "graph.onnx")
    assert code == 0
    model = onnx.load(tmp_path / "graph.onnx")
    onnx.checker.check_model(model)
    graph = model.graph
    typed = {info.name: info.type.tensor_type for info in (*graph.input, *graph.value_info, *graph.output)}
    produced = {name for node in graph.node for name in node.output}
    assert produced <= set(typed), "every edge is typed"
    int4 = typed["GroupQuant:0"]
    assert int4.elem_type == onnx.TensorProto.INT4
    assert [size.dim_param for size in int4.shape.dim] == ["s77", "s27"]
    packed = typed["Reshape_1:0"]
    assert packed.elem_type == onnx.TensorProto.INT32
    assert [size.dim_param for size in packed.shape.dim] == ["s77", "s27//8"]
    (quantise,) = (node for node in graph.node if node.op_type == "GroupQuant")
    assert {attribute.name: attribute.s for attribute in quantise.attribute} == {"dst_type": b"int4"}
    assert {tensor.name: onnx.numpy_helper.to_array(tensor).tolist() for tensor in graph.initializer}["Const:0"] == [
        1,
        8,
    ]


def test_onnx_needs_a_file(command):
    code, out, error = command("inspect", INT4, "--format", "onnx")
    assert (code, out) == (2, "")
    assert "name a file with -o" in error


def test_onnx_of_a_block_is_valid(command, tmp_path):
    code, _, _ = command("inspect", DATA / "upstream_block.txt", "--format", "onnx", "-o", tmp_path / "block.onnx")
    assert code == 0
    onnx.checker.check_model(onnx.load(tmp_path / "block.onnx"))


def test_json(command):
    _, out, _ = command("inspect", INT4, "--format", "json", "--size", "s77=4,s27=16,s75=2")
    facts = json.loads(out)
    nodes = {node["name"]: node for node in facts["nodes"]}
    assert nodes["GroupQuant"]["outputs"] == [{"name": "y", "dtype": "int4", "shape": ["s77", "s27"], "inferred": True}]
    assert nodes["GroupQuant"]["attributes"] == {"dst_type": "int4"}
    assert nodes["GroupQuant"]["bytes"] == 232
    assert facts["summary"]["nodes"] == 14
    assert facts["idioms"][0]["kind"] == "pack int4"


def test_dot(command):
    _, out, _ = command("inspect", INT4, "--format", "dot")
    assert out.startswith("digraph ge {")
    assert out.count(" -> ") == 15
    assert 'label="pack int4"' in out
    assert '[label="int32[s77, s27//8]"]' in out


def test_text_folds_and_unfolds(command):
    _, folded, _ = command("inspect", INT4)
    assert "Reshape_1: pack int4(GroupQuant) -> int32[s77, s27//8]  = 9 nodes: Shape, 3 Const" in folded
    assert (
        "GroupQuant: GroupQuant(x=arg2_1, scale=arg4_1, group_index=arg5_1; dst_type=int4) -> int4[s77, s27]" in folded
    )
    _, unfolded, _ = command("inspect", INT4, "--no-fold", "--costs", "--size", "s77=4,s27=16,s75=2")
    assert len(unfolded.split("\n\n")[0].splitlines()) == 14
    assert "[232 B, 192 FLOP]" in unfolded
    assert "quantised: 1 of 2 computing nodes (50 %)" in unfolded
