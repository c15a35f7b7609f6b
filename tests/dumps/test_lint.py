"""Each rule fires where it should, and nowhere in what this package lowers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from graph_quant import dumps
from graph_quant.dumps import Severity, lint_rules

DATA = Path(__file__).parent / "data"
INT4 = (DATA / "upstream_group_quant_int4.txt").read_text()
MATMUL = (DATA / "upstream_quant_matmul_bad_scale.txt").read_text()
PROTO = (DATA / "small_ge_proto.txt").read_text()
BLOCK = (DATA / "upstream_block_original.txt").read_text()

NODE = 'op {{ name: "{}" type: "{}" {} output_desc {{ name: "y" dtype: {} layout: "ND" {} }} }}\n'
META = 'attr { key: "_meta" value { s: "Tensor(dtype=torch.float32, shape=torch.Size([2, 3])" } }'
CAST = 'input: "{}:0" input_desc {{ name: "x" }} attr {{ key: "dst_type" value {{ i: {} }} }}'
ROUNDED = "".join(
    (
        NODE.format("arg0_1", "Data", 'attr { key: "index" value { i: 0 } }', "DT_FLOAT", META),
        NODE.format("Cast", "Cast", CAST.format("arg0_1", 27), "DT_BF16", ""),
        NODE.format("Cast_1", "Cast", CAST.format("Cast", 0), "DT_FLOAT", ""),
        'op { name: "NetOutput" type: "NetOutput" input: "Cast_1:0" input_desc { name: "input0" } }\n',
    )
)

FIRES = {
    "kept-node": (ROUNDED, "Cast_1", "casts back to float32 what Cast rounded to bfloat16"),
    "refused-type": ((DATA / "upstream_group_quant_default.txt").read_text(), "GroupQuant", "dst_type=uint8"),
    "unpacked-scale": (MATMUL, "QuantBatchMatmulV3", "scale is float32 and the result float16"),
    "int4-width": (INT4.replace("[s77, s27]", "[s77, 12]").replace("[s75, s27]", "[s75, 12]"), "GroupQuant", "is 12"),
    "float-desc": (INT4, "GroupQuant", "y is int4, the desc says float32"),
    "redundant-chain": (INT4, "Reshape_1", "9 nodes pack int4; Const [0, …, -1, 8], Reshape and Bitcast"),
    "needless-node": (INT4, "Reshape_1", "reshapes to the shape it has"),
    "no-output": (INT4.replace('"NetOutput"', '"Identity"'), "Identity", "the graph has no NetOutput"),
    "cut-off": (PROTO[: PROTO.index("src_format")], "conv_relu", "4 were read and checked, no more"),
    "mixed-dtypes": (
        INT4.replace("GroupQuant", "AscendQuantV2")
        .replace("DT_FLOAT16", "DT_FLOAT", 2)
        .replace("dtype=torch.float16", "dtype=torch.float32", 1),
        "AscendQuantV2",
        "x is float32, scale is float16",
    ),
    "unreachable": (BLOCK, "Pack_2", "Pack whose result nothing needs"),
    "impossible-size": (INT4.replace("dim: -1", "dim: -5", 1), "arg2_1", "has the sizes [-5, "),
    "static-shape": (BLOCK, "Reshape_4", "works only where s27 is 8"),
    "refused-call": (INT4.replace("[s75, s27]", "[s75, 24]").replace("[s77, s27]", "[s77, 32]"), "GroupQuant", "24"),
}


def test_every_rule_is_tested():
    of_chips = {"lacking-chip", "undescribed-chip"}  # in tests/test_chip.py, because they need --chip
    assert set(FIRES) | of_chips == set(lint_rules())


@pytest.mark.parametrize("name", FIRES)
def test_a_rule_fires_and_can_be_ignored(command, tmp_path, name):
    text, node, message = FIRES[name]
    path = tmp_path / "dump.txt"
    path.write_text(text)
    severity = lint_rules()[name].severity
    code, out, error = command("lint", path, "--format", "json", "--fail-on", severity)
    assert (code, error) == (1, "")
    findings = [finding for finding in json.loads(out) if finding["rule"] == name]
    assert {finding["severity"] for finding in findings} == {str(severity)}
    assert f"[{name}]" in command("lint", path, "--level", "note")[1]
    assert any(finding["node"] == node and message in finding["message"] for finding in findings), findings
    assert all(finding["why"] and finding["way_out"] for finding in findings)
    _, out, _ = command("lint", path, "--level", "note", "--ignore", name)
    assert f"[{name}]" not in out
    every_place = [argument for finding in findings for argument in ("--ignore", f"{name}:{finding['node']}")]
    assert f"[{name}]" not in command("lint", path, "--level", "note", *every_place)[1]


def test_nothing_but_notes_on_the_operators_as_this_package_lowers_them(live):
    for name, case in live.items():
        findings = [finding for finding in dumps.load(case.txt).lint() if finding.rule.severity > Severity.NOTE]
        assert not [(finding.rule.id, finding.node, finding.message) for finding in findings], name


def test_severities_decide_what_is_shown_and_what_fails(command, tmp_path):
    (tmp_path / "int4.txt").write_text(INT4)
    (tmp_path / "block.txt").write_text(BLOCK)
    both = (tmp_path / "int4.txt", tmp_path / "block.txt")
    code, out, _ = command("lint", *both)
    assert code == 1
    assert f"{both[0]}: error: GroupQuant: y is int4, the desc says float32 [float-desc]\n" in out
    assert ": note:" not in out
    assert out.splitlines()[-1].startswith("2 errors, ")
    assert out.splitlines()[-1].endswith(" notes (--level note shows them)")
    assert " in 2 dumps; " in out
    _, out, _ = command("lint", *both, "--level", "note")
    assert ": note:" in out
    assert command("lint", *both, "--level", "error", "--fail-on", "never")[0] == 0
    code, out, _ = command("lint", both[1], "--ignore", "static-shape,float-desc,redundant-chain")
    assert (code, out.startswith("no findings; ")) == (0, True), "notes do not fail a build"
    assert command("lint", both[1], "--fail-on", "note")[0] == 1


def test_folders(command, tmp_path):
    inner = tmp_path / "dumps" / "inner"
    inner.mkdir(parents=True)
    name = "dynamo_{}_graph_1_rank_0_pid_7_ts_{}.txt"
    (inner / name.format("original", 10)).write_text(INT4)
    (inner / name.format("optimized", 12)).write_text(BLOCK)
    (inner / "notes.txt").write_text("nothing of ours")
    (inner / "script.py").write_text("print('not a dump')")
    (tmp_path / "dumps" / "other.txt").write_text(MATMUL)
    code, out, error = command("lint", tmp_path / "dumps", "--format", "json", "--fail-on", "note")
    assert (code, error) == (1, "")
    findings = {Path(finding["dump"]).name for finding in json.loads(out)}
    assert findings == {name.format("optimized", 12), "other.txt"}


def test_an_unknown_rule_is_refused(command):
    code, _, error = command("lint", DATA / "upstream_group_quant_int4.txt", "--ignore", "nonsense")
    assert code == 2
    assert "there is no lint rule nonsense; the rules are cut-off, float-desc, impossible-size" in error


def test_rules_are_listed(command):
    code, out, _ = command("lint", "--rules")
    assert code == 0
    assert out.count("why: ") == out.count("fix: ") == len(lint_rules())
    assert command("lint")[0] == 2


def test_transpose_that_a_product_cannot_absorb_is_noted(tmp_path):
    path = tmp_path / "dump.txt"
    path.write_text(BLOCK.replace('type: "Identity"', 'type: "BatchMatMul"'))
    kept = [finding.message for finding in dumps.load(path).lint() if finding.rule.id == "kept-node"]
    assert len(kept) == 1
    assert kept[0].startswith("gives the axes in the order [0, 2, 1, 3]: ")
    assert kept[0].endswith("can exchange the last two alone")


NEGATED = NODE.format("Neg", "Neg", 'input: "Cast_1:0" input_desc { name: "x" }', "DT_FLOAT", "")
KEPT = (
    ROUNDED.replace("value { i: 27 }", "value { i: 11 }")
    .replace("DT_BF16", "DT_DOUBLE")
    .replace(
        'op { name: "NetOutput" type: "NetOutput" input: "Cast_1:0"',
        NEGATED + 'op { name: "NetOutput" type: "NetOutput" input: "Neg:0"',
    )
)
AXES = (
    'op { name: "axes" type: "Const" attr { key: "value" value { t { desc { dtype: DT_INT32 shape { dim: 2 } } '
    'data: "\\001\\000\\000\\000\\000\\000\\000\\000" } } } '
    'output_desc { name: "y" dtype: DT_INT32 shape { dim: 2 } } }\n'
)
PRODUCT = "".join(
    (
        NODE.format("arg0_1", "Data", 'attr { key: "index" value { i: 0 } }', "DT_FLOAT", META),
        AXES,
        NODE.format(
            "turned",
            "Transpose",
            'input: "arg0_1:0" input: "axes:0" input_desc { name: "x" } input_desc { name: "perm" }',
            "DT_FLOAT",
            "",
        ),
        NODE.format(
            "MatMul",
            "MatMul",
            'input: "arg0_1:0" input: "turned:0" input_desc { name: "x1" } input_desc { name: "x2" }',
            "DT_FLOAT",
            "",
        ),
        'op { name: "NetOutput" type: "NetOutput" input: "MatMul:0" input_desc { name: "input0" } }\n',
    )
)


def _kept(path: Path, text: str, waits_for: str) -> dict[str, str]:
    """The findings of kept-node if a node with a side effect waits for another."""
    wiring = 'input: "arg0_1:0" {} input_desc {{ name: "x" }}'.format(f'input: "{waits_for}:-1"' if waits_for else "")
    effect = NODE.format("Print", "Print", wiring, "DT_FLOAT", "")
    path.write_text(text.replace('op { name: "NetOutput"', effect + 'op { name: "NetOutput"'))
    return {finding.node: finding.message for finding in dumps.load(path).lint() if finding.rule.id == "kept-node"}


@pytest.mark.parametrize(("text", "node"), [(KEPT, "Cast_1"), (PRODUCT, "turned")])
def test_node_kept_by_a_control_edge_is_noted(tmp_path, text, node):
    path = tmp_path / "dump.txt"
    assert not _kept(path, text, "")
    message = "computes nothing new and stays, for Print waits for it: passes keep the order of nodes"
    assert _kept(path, text, node) == {node: message}
    assert not _kept(path, text, "arg0_1")
