"""Each rule fires where it should, and nowhere in what this package lowers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from graph_quant import dumps
from graph_quant.dumps.analyse.lint import rules

DATA = Path(__file__).parent / "data"
INT4 = (DATA / "upstream_group_quant_int4.txt").read_text()
MATMUL = (DATA / "upstream_quant_matmul_bad_scale.txt").read_text()
BLOCK = (DATA / "upstream_block_original.txt").read_text()

FIRES = {
    "refused-type": ((DATA / "upstream_group_quant_default.txt").read_text(), "GroupQuant", "dst_type=uint8"),
    "unpacked-scale": (MATMUL, "QuantBatchMatmulV3", "scale is float32 and the result float16"),
    "int4-width": (INT4.replace("[s77, s27]", "[s77, 12]").replace("[s75, s27]", "[s75, 12]"), "GroupQuant", "is 12"),
    "float-desc": (INT4, "GroupQuant", "y is int4, the desc says float32"),
    "redundant-chain": (INT4, "Reshape_1", "9 nodes pack int4; Const [0, …, -1, 8], Reshape and Bitcast"),
    "mixed-dtypes": (
        INT4.replace("GroupQuant", "AscendQuantV2")
        .replace("DT_FLOAT16", "DT_FLOAT", 2)
        .replace("dtype=torch.float16", "dtype=torch.float32", 1),
        "AscendQuantV2",
        "x is float32, scale is float16",
    ),
    "unreachable": (BLOCK, "Pack_2", "Pack whose result nothing needs"),
    "static-shape": (BLOCK, "Reshape_4", "works only where s27 is 8"),
    "refused-call": (INT4.replace("[s75, s27]", "[s75, 24]").replace("[s77, s27]", "[s77, 32]"), "GroupQuant", "24"),
}


def test_every_rule_is_tested():
    assert set(FIRES) == set(rules())


@pytest.mark.parametrize("name", FIRES)
def test_a_rule_fires_and_can_be_ignored(command, tmp_path, name):
    text, node, message = FIRES[name]
    path = tmp_path / "dump.txt"
    path.write_text(text)
    code, out, error = command("lint", path, "--format", "json")
    assert (code, error) == (1, "")
    found = [finding for finding in json.loads(out) if finding["rule"] == name]
    assert any(finding["node"] == node and message in finding["message"] for finding in found), found
    assert all(finding["why"] and finding["way_out"] for finding in found)
    _, out, _ = command("lint", path, "--ignore", name)
    assert f"[{name}]" not in out
    every_place = [argument for finding in found for argument in ("--ignore", f"{name}:{finding['node']}")]
    assert f"[{name}]" not in command("lint", path, *every_place)[1]


def test_nothing_fires_on_the_operators_as_this_package_lowers_them(live):
    for name, case in live.items():
        findings = dumps.load(case.txt).lint(ignore=["unreachable"])
        if name == "block":  # TorchAir's own lowering of addmm multiplies by one and reshapes twice
            findings = [finding for finding in findings if finding.rule.id != "redundant-chain"]
        assert not [(finding.rule.id, finding.node, finding.message) for finding in findings], name


def test_an_unknown_rule_is_refused(command):
    code, _, error = command("lint", DATA / "upstream_group_quant_int4.txt", "--ignore", "nonsense")
    assert code == 2
    assert "there is no lint rule nonsense; the rules are float-desc, int4-width" in error


def test_the_rules_can_be_read(command):
    code, out, _ = command("lint", "--rules")
    assert code == 0
    assert out.count("why: ") == out.count("way out: ") == len(rules())
    assert command("lint")[0] == 2
