"""A folder of dumps: the passes in order, what each changed, what became of nodes, and where quantisation is lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from graph_quant.dumps import group_pass_dumps
from graph_quant.ge.protobuf import schema


def graph(*ops: dict) -> str:
    """A ge_proto of nodes with one output each; dtypes by name, ``of`` are the nodes that it was fused from."""
    model = schema().ModelDef()
    graph_def = model.graph.add(name="g")
    words = schema().DataType
    for op in ops:
        node = graph_def.op.add(name=op["name"], type=op["type"], input=[f"{name}:0" for name in op.get("reads", ())])
        desc = node.output_desc.add(dtype=words.Value(op.get("dtype", "DT_FLOAT16")), layout=op.get("layout", "ND"))
        desc.shape.dim.extend([4, 16])
        names = op.get("inputs", ["x", "x2", "scale"])
        for index, _ in enumerate(op.get("reads", ())):
            node.attr["_input_name_key"].list.s.append(names[index].encode())
            node.attr["_input_name_value"].list.i.append(index)
            node.input_desc.add()
        for name in op.get("of", ()):
            node.attr["_datadump_original_op_names"].list.s.append(name.encode())
    return str(model)


X = {"name": "x", "type": "Data"}
W = {"name": "w", "type": "Data", "dtype": "DT_INT8"}
QUANT = {"name": "quant", "type": "AscendQuant", "reads": ["x"], "dtype": "DT_INT8"}
LINEAR = {"name": "linear", "type": "QuantBatchMatmulV3", "reads": ["quant", "w"]}
RELU = {"name": "relu", "type": "Relu", "reads": ["linear"]}
OUT = {"name": "out", "type": "NetOutput", "reads": ["relu"]}
FUSED = LINEAR | {"of": ["linear", "relu"]}
CAST = {"name": "trans_Cast_1", "type": "Cast", "reads": ["linear"], "dtype": "DT_FLOAT"}


@pytest.fixture
def folder(tmp_path) -> Path:
    files = {
        "ge_proto_00000001_graph_1_PreRunBegin.txt": graph(X, W, QUANT, LINEAR, RELU, OUT),
        "ge_proto_00000002_graph_1_FeGraphFusion.txt": graph(X, W, QUANT, FUSED, OUT | {"reads": ["linear"]}),
        "ge_proto_00000010_graph_1_InsertCast.txt": graph(X, W, QUANT, FUSED, CAST, OUT | {"reads": ["trans_Cast_1"]}),
        "ge_proto_00000011_graph_1_FormatPass.txt": graph(
            X, W, QUANT, FUSED | {"layout": "FRACTAL_NZ"}, CAST, OUT | {"reads": ["trans_Cast_1"]}
        ),
        "ge_proto_00000012_graph_1_Fallback.txt": graph(
            X,
            W | {"dtype": "DT_FLOAT16"},
            QUANT | {"dtype": "DT_FLOAT16"},
            FUSED,
            CAST,
            OUT | {"reads": ["trans_Cast_1"]},
        ),
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "ge_readable_00000001_graph_1_PreRunBegin.txt").write_text('graph("g"):\n')
    return tmp_path


def test_passes_in_order_and_what_each_changed(command, folder):
    code, out, error = command("inspect", folder)
    assert (code, error) == (0, "")
    lines = [line.strip() for line in out.splitlines()]
    assert lines[1:] == [
        "1 PreRunBegin: 6 nodes",
        "2 FeGraphFusion: 5 nodes",
        "fused linear = linear + relu",
        "10 InsertCast: 6 nodes",
        "cast inserted: trans_Cast_1",
        "11 FormatPass: 6 nodes",
        "reformatted linear",
        "12 Fallback: 6 nodes",
        "reformatted linear",
        "dtype changed of w, quant",
        "where nodes went:",
        "relu (Relu) → fused into linear (QuantBatchMatmulV3) at FeGraphFusion",
        "no longer quantised after Fallback: linear (QuantBatchMatmulV3), now QuantBatchMatmulV3",
    ]


def test_folder_of_passes_as_json(command, folder):
    code, out, _ = command("diff", folder, "--format", "json")
    assert code == 1
    (history,) = json.loads(out)
    assert [step["name"] for step in history["passes"]][:2] == ["PreRunBegin", "FeGraphFusion"]
    assert history["first_unquantised"]["pass"] == "Fallback"
    assert history["paths"]["relu"][-1].endswith("at FeGraphFusion")


def test_one_dump_alone_has_nothing_to_compare(command, tmp_path):
    (tmp_path / "ge_proto_00000001_A.txt").write_text(graph(X, W, QUANT, LINEAR, RELU, OUT))
    assert command("diff", tmp_path)[0] == 0
    code, _, error = command("diff", tmp_path / "ge_proto_00000001_A.txt")
    assert (code, error) == (2, "graph-quant: diff: name a second dump, or a folder\n")


def test_series_of_torchair_and_fx():
    names = [
        "run/model__0/forward/000_aot_forward_graph.txt",
        "run/model__0/forward/001_aot_forward_graph_after_noop.txt",
        "run/model__0/forward/016_aot_forward_optimized_ge_graph.pbtxt",
        "d/dynamo_original_graph_1_rank_0_pid_7_ts_1.txt",
        "d/dynamo_optimized_graph_1_rank_0_pid_7_ts_2.txt",
    ]
    groups = group_pass_dumps([Path(name) for name in names])
    assert [entry.name for entry in groups["forward graph in model__0"]] == [
        "graph", "graph_after_noop", "optimized_ge_graph",
    ]  # fmt: skip
    assert [entry.name for entry in groups["graph 1_rank_0_pid_7"]] == ["original", "optimized"]


def test_nodes_are_followed_from_fx_to_ge(command, tmp_path):
    folder = tmp_path / "model__0" / "forward"
    folder.mkdir(parents=True)
    fx = """\
class <lambda>(torch.nn.Module):
    def forward(self, arg0_1: "f16[4, 16]", arg1_1: "f16[4, 16]"):
        relu: "f16[4, 16]" = torch.ops.aten.relu.default(arg0_1);  arg0_1 = None
        add: "f16[4, 16]" = torch.ops.aten.add.Tensor(relu, arg1_1);  relu = arg1_1 = None
        return (add,)
"""
    ge = graph(X, {"name": "Relu", "type": "Relu", "reads": ["x"]}, OUT | {"reads": ["Relu"]})
    ge = ge.replace(
        "    output_desc {\n      dtype: DT_FLOAT16",
        '    output_desc {\n      attr { key: "_fx_tensor_name" value { s: "relu" } }\n      dtype: DT_FLOAT16',
    )
    (folder / "000_aot_forward_graph.txt").write_text(fx)
    (folder / "001_aot_forward_original_ge_graph.txt").write_text(ge)
    (folder / "output_code.py").write_text(
        "from torchair.core import something\n"
    )  # no dump, though it may look like one
    code, out, error = command("inspect", tmp_path)
    assert (code, error) == (0, "")
    assert "    relu (aten.relu.default) → Relu at original_ge_graph" in out
    assert "    add (aten.add.Tensor) → no GE node at original_ge_graph" in out


def test_pass_that_only_rewires_inputs_is_a_change(tmp_path, command):
    other = {"name": "other", "type": "Relu", "reads": ["x"]}
    passes = (
        graph(X, RELU | {"reads": ["x"]}, other, OUT),
        graph(X, RELU | {"reads": ["x"]}, other, OUT | {"reads": ["other"]}),
    )
    for number, text in enumerate(passes):
        (tmp_path / f"ge_proto_0000000{number}_graph_1_Pass{number}.txt").write_text(text)
    code, out, error = command("diff", tmp_path)
    assert (code, error) == (1, "")
    assert "otherwise changed" in out
    assert "nothing changed" not in out


def test_pass_that_only_changes_a_called_graph_is_a_change(tmp_path, command):
    text = (Path(__file__).parent / "data" / "small_ge_proto.txt").read_text()
    for number, content in enumerate((text, text.replace('"Add"', '"Mul"'))):
        (tmp_path / f"ge_proto_0000000{number}_graph_1_Pass{number}.txt").write_text(content)
    code, out, error = command("diff", tmp_path)
    assert (code, error) == (1, "")
    assert "in twice" in out
