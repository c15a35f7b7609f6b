"""GE's own dumps, TorchAir's air and FX graphs: read, shown, costed, and written back equal."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from graph_quant import dumps
from graph_quant.dumps import Costs, node_lines, summary_lines, to_ge_onnx, to_ge_proto, to_ge_readable
from graph_quant.dumps.graph.placement import read_placement
from graph_quant.ge.protobuf import schema
from graph_quant.ge.registrations import is_known

DATA = Path(__file__).parent / "data"
WRITERS = {"ge_proto": to_ge_proto, "ge_onnx": to_ge_onnx, "ge_readable": to_ge_readable}
SMALL = "small_ge_proto.txt"


def rewritten(dump: dumps.Dump, kind: str, folder: Path) -> dumps.Dump:
    path = folder / "rewritten"  # by content, never by name
    path.write_text(WRITERS[kind](dump))
    reread = dumps.load(path)
    assert reread.kind == kind
    return reread


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize(
    "name", ["upstream_group_quant_int4.txt", "upstream_block.txt", SMALL, "small_ge_readable.txt"], ids=str
)
def test_a_graph_is_the_same_in_every_format(name, kind, tmp_path):
    dump = dumps.load(DATA / name)
    difference = dump.diff(rewritten(dump, kind, tmp_path))
    assert not difference, list(difference.lines())[:8]


@pytest.mark.parametrize("kind", WRITERS)
def test_what_torchair_writes_reads_back_equal(live, kind, tmp_path):
    for name in ("block", "group_quant_int4"):
        dump = dumps.load(live[name].txt)
        assert not dump.diff(rewritten(dump, kind, tmp_path)), name


@pytest.mark.parametrize("kind", WRITERS)
def test_a_changed_graph_differs_in_every_format(kind, tmp_path):
    before = rewritten(dumps.load(DATA / SMALL), kind, tmp_path)
    text = (DATA / SMALL).read_text()
    (tmp_path / "other").write_text(text.replace('s: "NC1HWC0"', 's: "FRACTAL_NZ"').replace('"Add"', '"Mul"'))
    after = rewritten(dumps.load(tmp_path / "other"), kind, tmp_path)
    lines = list(before.diff(after).lines())
    assert "in graph twice:" in lines
    assert any(line.startswith("  - Add: Add(x1=x, x2=x)") for line in lines)
    assert any("src_format: NC1HWC0 -> FRACTAL_NZ" in line for line in lines)


def test_placement_and_origins_are_shown_but_pass_attributes_are_not():
    dump = dumps.load(DATA / SMALL)
    lines = list(node_lines(dump))
    assert lines[3] == (
        "conv_relu: Conv2D(x=image, filter=weight; data_format=NCHW, dilations=[1, 1, 1, 1], groups=1, "
        "pads=[1, 1, 1, 1], strides=[1, 1, 1, 1]) -> float16[1, 16, 8, 8] NCHW as NC1HWC0[1, 1, 8, 8, 16]"
        "  @ stream 1, AIcoreEngine, at 0x1000, workspace 512 B  = fused conv + norm + relu"
    )
    assert read_placement(dump, dump.nodes["conv_relu"]).origins == ("conv", "norm", "relu")
    assert "graph twice, then_branch of branch:" in lines


def test_a_convolution_counts_under_the_name_of_what_it_was_fused_with(tmp_path):
    named = (DATA / SMALL).read_text().replace('type: "Conv2D"', 'type: "ReadSelect"')
    (tmp_path / "fused.txt").write_text(named)
    dump = dumps.load(tmp_path / "fused.txt")
    assert dump.nodes["conv_relu"].type == "ReadSelect"
    assert Costs(dump).nodes["conv_relu"].flops == 2 * 16 * 8 * 8 * 3 * 3 * 3


@pytest.mark.parametrize(
    ("name", "text", "hostile", "expected"),
    [
        ("small_ge_readable.txt", "axes: {0, -1}", "axes: {x, -1}", "is no value for the attribute axes"),
        ("small_fx.txt", '"f16[s77, 16]"', '"f16[s77, 9223372036854775807]"', "arg0_1: "),
    ],
    ids=["list", "size"],
)  # fmt: skip
def test_hostile_contents_end_in_one_line(command, tmp_path, name, text, hostile, expected):
    content = (DATA / name).read_text()
    assert text in content
    (tmp_path / "hostile.txt").write_text(content.replace(text, hostile, 1))
    code, _, error = command("inspect", tmp_path / "hostile.txt")
    assert (code, error.count("\n")) == (2, 1)
    assert expected in error


def test_called_graphs_are_costed_with_their_callers():
    dump = dumps.load(DATA / SMALL)
    costs = Costs(dump)
    elements = 16 * 8 * 8
    assert costs.nodes["conv_relu"].flops == 2 * elements * 3 * 3 * 3
    assert costs.nodes["branch"].flops == elements  # the branch that adds, not the one that does nothing
    assert costs.nodes["part"].bytes == elements * (2 + 1)
    assert costs.total("flops") == sum(cost.flops for cost in costs.nodes.values())
    assert costs.quantised() == (1, 3)
    # Blocks of 16 channels are moved, though the tensor has three.
    assert costs.nodes["conv_relu"].bytes == 2 * (8 * 8 * 16 + 9 * 16 * 16 + 8 * 8 * 16)


def test_missing_facts_are_listed_once():
    summary = list(summary_lines(dumps.load(DATA / SMALL), Costs(dumps.load(DATA / SMALL))))
    assert "not in the file: the bytes of 1 constant" in summary
    readable = dumps.load(DATA / "small_ge_readable.txt")
    assert readable.missing == ["the bytes of 2 constants", "dtypes and shapes"]
    assert not any("!" in line for line in node_lines(readable))


def test_a_part_of_a_graph_is_read_as_a_part(tmp_path):
    model = schema().ModelDef()
    graph = model.graph.add(name="part")
    graph.op.add(name="End1", type="End", input=["Relu:0"])
    graph.op.add(name="Relu", type="Relu", input=["elsewhere:1"])
    (tmp_path / "part").write_text(str(model))
    dump = dumps.load(tmp_path / "part")
    assert dump.missing == ["what computes elsewhere", "what follows 1 End node", "dtypes and shapes"]
    assert dump.nodes["elsewhere"].type == "PlaceHolder"
    assert dump.lint() == []


def test_a_file_that_stops_in_a_node_is_read_up_to_there(tmp_path):
    text = (DATA / SMALL).read_text()
    (tmp_path / "cut").write_text(text[: text.index("src_format")])
    dump = dumps.load(tmp_path / "cut")
    assert [node.name for node in dump.order] == ["image", "chosen", "weight", "conv_relu"]
    assert dump.missing[0] == "the file ends inside a node: that node and what follows"
    assert [(finding.rule.id, finding.node) for finding in dump.lint()] == [("cut-off", "conv_relu")]
    assert dump.lint(["cut-off"]) == []


def test_graphs_that_call_each_other_are_refused(tmp_path):
    model = schema().ModelDef()
    for name, called in (("top", "one"), ("one", "two"), ("two", "one")):
        model.graph.add(name=name).op.add(name="call", type="PartitionedCall", subgraph_name=[called])
    (tmp_path / "circle").write_text(str(model))
    with pytest.raises(dumps.DumpError, match="call: the graphs call each other in a circle, through one"):
        dumps.load(tmp_path / "circle")


def test_a_serialised_model_is_an_air(tmp_path):
    model = schema().ModelDef()
    model.graph.add().CopyFrom(dumps.load(DATA / "upstream_block.txt").graph_def)
    (tmp_path / "model.bin").write_bytes(model.SerializeToString())
    dump = dumps.load(tmp_path / "model.bin")
    assert dump.kind == "air"
    assert not dumps.load(DATA / "upstream_block.txt").diff(dump)


def test_fx_graphs_of_passes_are_read():
    dump = dumps.load(DATA / "small_fx.txt")
    lines = list(node_lines(dump))
    assert lines[4] == (
        "npu_dynamic_quant: npu.npu_dynamic_quant.default(arg0=arg0_1) -> 0: int8[s77, 16], 1: float32[s77]"
        "  # npu_dynamic_quant model.py:6"
    )
    assert lines[8].startswith("add: add(arg0=mm, arg1=_to_copy) -> float16[s77, 16]")
    assert "graph true_graph_0, then_branch of cond:" in lines
    assert dump.lint() == []
    assert Costs(dump).total("flops") is None


def test_real_pass_files_are_read(tmp_path):
    import torch
    from torch._functorch.aot_autograd import make_boxed_func

    written = []

    def keep(module, _):
        written.append(module.print_readable(False))
        return make_boxed_func(module.forward)

    from torch._dynamo.backends.common import aot_autograd

    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.SiLU(), torch.nn.Linear(8, 8))
    with torch.no_grad():
        torch.compile(model, backend=aot_autograd(fw_compiler=keep))(torch.randn(3, 8))
    (tmp_path / "000_aot_forward_graph.txt").write_text(written[0])
    dump = dumps.load(tmp_path / "000_aot_forward_graph.txt")
    assert dump.kind == "fx"
    assert [node.type for node in dump.order if "addmm" in node.type] == ["aten.addmm.default"] * 2
    assert all(tensor.inferred for types in dump.inference.types.values() for tensor in types)


def test_types_that_ge_registers_are_known():
    for name in ("PartitionedCall", "Variable", "StreamActive", "While", "MemcpyAsync", "RmsNormQuantV2", "Conv2D"):
        assert is_known(name)
    assert not is_known("NoSuchOperator")


@pytest.mark.parametrize("output", ["json", "html", "onnx", "dot", *WRITERS])
@pytest.mark.parametrize("name", [SMALL, "small_ge_readable.txt", "small_fx.txt"], ids=str)
def test_every_output_of_every_format(command, name, output, tmp_path):
    shutil.copy(DATA / name, tmp_path / "dump")
    code, _, error = command("inspect", tmp_path / "dump", "--format", output, "-o", tmp_path / "out")
    assert (code, error) == (0, "")
    assert (tmp_path / "out").stat().st_size > 100
    if output == "onnx":
        import onnx

        model = onnx.load(tmp_path / "out")
        inner = [a.name for node in model.graph.node for a in node.attribute if a.type == onnx.AttributeProto.GRAPH]
        assert inner[:2] == ["then_branch", "else_branch"]
