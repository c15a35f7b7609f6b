"""Dumps of every format load and are equal."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from graph_quant import dumps
from graph_quant.dumps import Costs, node_lines, summary_lines, to_json
from graph_quant.ge import dtypes
from graph_quant.ge.protobuf import schema

DATA = Path(__file__).parent / "data"


def listing(dump: dumps.Dump) -> list[str]:
    costs = Costs(dump)
    return [*node_lines(dump, costs), *node_lines(dump, fold=False), *summary_lines(dump, costs), to_json(dump, costs)]


def test_txt_and_pbtxt_are_equal(live):
    for name, case in live.items():
        for stage, files in case.dumps.items():
            txt, pbtxt, py = (dumps.load(files[kind]) for kind in ("txt", "pbtxt", "py"))
            assert (txt.kind, pbtxt.kind, py.kind) == ("txt", "pbtxt", "py")
            assert listing(txt) == listing(pbtxt), (name, stage)
            assert not txt.inference.failures, (name, txt.inference.failures)


def test_the_py_dump_is_the_original_graph(live):
    for name, case in live.items():
        files = case.dumps["original"]
        txt, py = dumps.load(files["txt"]), dumps.load(files["py"])
        kinds = [Counter(node.type for node in dump.order if node.type != "Const") for dump in (txt, py)]
        assert kinds[0] == kinds[1], name
        for node in py.order:
            if node.type not in ("Const", "Data"):
                expected = [str(nodes) for nodes in txt.inference.types[node.name]]
                assert [str(nodes) for nodes in py.inference.types[node.name]] == expected, (name, node.name)


@pytest.mark.parametrize("stem", ["upstream_group_quant_int4", "upstream_block"])
def test_upstream_dumps_load_alike(stem):
    txt, pbtxt = dumps.load(DATA / f"{stem}.txt"), dumps.load(DATA / f"{stem}.pbtxt")
    assert listing(txt) == listing(pbtxt)
    assert not dumps.load(DATA / f"{stem}_py.txt").inference.failures


def test_python_lines_come_from_the_py_twin():
    dump = dumps.load(DATA / "upstream_block.txt", DATA / "upstream_block_py.txt")
    assert str(dump.nodes["LayerNormV4"].source) == "native_layer_norm model.py:35"
    # TorchAir prints a line only once, so that what follows it may belong to any earlier one.
    assert str(dump.nodes["Reshape"].source) == "addmm model.py:35?"
    assert dumps.load(DATA / "upstream_block.txt").nodes["LayerNormV4"].source.fx == "native_layer_norm"


def test_a_py_dump_is_never_executed(tmp_path):
    marker = tmp_path / "marker"
    hostile = f"__import__('pathlib').Path({str(marker)!r}).touch()"
    text = (DATA / "upstream_group_quant_int4_py.txt").read_text()
    path = tmp_path / "dump.py"
    path.write_text(f"{hostile}\n{text}{hostile}\n")
    assert "GroupQuant" in dumps.load(path).nodes
    path.write_text(text.replace("dst_type=29", f"dst_type={hostile}"))
    with pytest.raises(dumps.DumpError, match="argument that TorchAir does not write"):
        dumps.load(path)
    assert not marker.exists()


def test_a_live_graph_is_a_dump_too():
    from google.protobuf import text_format

    graph = text_format.Parse((DATA / "upstream_group_quant_int4.txt").read_text(), schema().GraphDef())
    assert listing(dumps.from_graph(graph)) == listing(dumps.load(DATA / "upstream_group_quant_int4.txt"))


def test_a_live_graph_knows_its_python_lines(live):
    dump = dumps.from_graph(live["group_quant_int4"].graph)
    assert dump.inference.types == dumps.load(live["group_quant_int4"].txt).inference.types
    source = dump.nodes["GroupQuant"].source
    assert source.fx == "npu_group_quant"
    line = Path(source.file).read_text().splitlines()[source.line - 1]
    assert "torch_npu.npu_group_quant(" in line


def test_the_names_of_dtypes_are_those_of_torchair():
    from torchair.ge._ge_graph import DataType

    numbers = {name: number for name, number in vars(DataType).items() if name.startswith("DT_") and name != "DT_MAX"}
    assert {dtypes.of_registration(name): number for name, number in numbers.items()} == dtypes.TO_ATTRIBUTE
    proto = {dtypes.of_registration(name): number for name, number in schema().DataType.items()}
    assert proto == dtypes.TO_DESC
