"""Lint as a gate of a build: baselines, limits, and output for other programs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest
from graph_quant import dumps

DATA = Path(__file__).parent / "data"
INT4 = (DATA / "upstream_group_quant_int4.txt").read_text()
NAME = "dynamo_optimized_graph_1_rank_0_pid_{}_ts_{}.txt"
# The same graph with its nodes under other names.
RENUMBERED = INT4.replace('name: "GroupQuant"', 'name: "GroupQuant_3"').replace('"GroupQuant:', '"GroupQuant_3:')


@pytest.fixture
def baseline(command, tmp_path) -> Path:
    """A baseline of one dump with an error, written by an earlier process."""
    folder = tmp_path / "before"
    folder.mkdir()
    (folder / NAME.format(7, 10)).write_text(INT4)
    path = tmp_path / "baseline.json"
    assert command("lint", folder, "--write-baseline", path)[0] == 0
    assert command("lint", folder)[0] == 1
    return path


def write_dump(tmp_path: Path, text: str) -> Path:
    folder = tmp_path / "after"
    folder.mkdir(exist_ok=True)
    (folder / NAME.format(81, 99)).write_text(text)
    return folder


@pytest.mark.parametrize("text", [INT4, RENUMBERED], ids=["same", "renumbered"])
def test_findings_of_the_baseline_do_not_fail(command, tmp_path, baseline, text) -> None:
    code, out, _ = command("lint", write_dump(tmp_path, text), "--baseline", baseline)
    assert (code, out.startswith("no findings; "), "in the baseline" in out) == (0, True, True), out


def test_new_findings_fail(command, tmp_path, baseline) -> None:
    worse = INT4.replace("[s77, s27]", "[s77, 12]").replace("[s75, s27]", "[s75, 12]")
    code, out, _ = command("lint", write_dump(tmp_path, worse), "--baseline", baseline)
    assert code == 1
    assert "[int4-width]" in out
    assert "[float-desc]" not in out
    facts = json.loads(command("lint", tmp_path / "after", "--baseline", baseline, "--format", "json")[1])
    assert {fact["rule"] for fact in facts if fact.get("new") is False} >= {"float-desc"}
    assert {fact["rule"] for fact in facts if "new" not in fact} == {"int4-width", "refused-call"}


def test_a_second_finding_of_one_kind_is_new(command, tmp_path, baseline) -> None:
    content = json.loads(baseline.read_text())
    (entry,) = content["dumps"].values()
    known = [finding for finding in entry["findings"] if finding["of"][0] == "float-desc"]
    for finding in known:
        finding["count"] -= 1
    baseline.write_text(json.dumps(content))
    code, out, _ = command("lint", write_dump(tmp_path, INT4), "--baseline", baseline)
    assert (code, out.count(" [float-desc]")) == (1, len(known))


@pytest.mark.parametrize(
    ("size", "rule"), [({"nodes": 1}, "node-count"), ({"computing": 1, "quantised": 1}, "quantised-share")]
)
def test_a_graph_that_got_worse_fails(command, tmp_path, baseline, size, rule) -> None:
    content = json.loads(baseline.read_text())
    (entry,) = content["dumps"].values()
    assert entry["nodes"] > 1
    assert entry["quantised"] < entry["computing"]
    entry.update(size)
    baseline.write_text(json.dumps(content))
    code, out, _ = command("lint", write_dump(tmp_path, INT4), "--baseline", baseline)
    assert (code, f"[{rule}]" in out) == (1, True), out


def test_a_baseline_of_other_dumps_is_refused(command, tmp_path, baseline) -> None:
    other = tmp_path / "other.txt"
    other.write_text(INT4)
    code, _, error = command("lint", other, "--baseline", baseline)
    assert (code, "it has none of these dumps, but dynamo_optimized_graph_1_rank_0.txt" in error) == (2, True), error
    shutil.copy(other, write_dump(tmp_path, INT4) / "second.txt")
    (tmp_path / "after" / NAME.format(81, 99)).rename(tmp_path / "after" / "third.txt")
    content = json.loads(baseline.read_text())
    content["dumps"]["third.txt"] = next(iter(content["dumps"].values()))
    baseline.write_text(json.dumps(content))
    out = command("lint", tmp_path / "after", "--baseline", baseline)[1]
    assert "warning: the baseline has no second.txt, so its size is not compared [not-in-baseline]" in out
    assert "not checked: dynamo_optimized_graph_1_rank_0.txt, which the baseline has" in out


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"version": 1, "dumps": {"a": {}}}', '{"version": 9, "dumps": {}}']
)
def test_a_file_that_is_no_baseline_is_refused(command, tmp_path, content) -> None:
    (tmp_path / "baseline.json").write_text(content)
    code, _, error = command("lint", DATA / "small_ge_proto.txt", "--baseline", tmp_path / "baseline.json")
    assert (code, "baseline" in error, error.count("\n")) == (2, True, 1)


LIMITS = [
    (["--max-nodes", "18"], None),
    (["--max-nodes", "17"], "18 nodes, at most 17 are allowed [node-count]"),
    (["--min-quantised", "33%"], None),
    (["--min-quantised", "0.34"], "1 of 3 computing nodes are quantised (33.3 %), at least 34 % must be"),
    (["--forbid", "TransData"], "trans: is a TransData [forbidden-type]"),
    (["--forbid", "MatMul,Gelu"], None),
    (["--forbid", "Ascend*"], "quantise/AscendQuant: is a AscendQuant [forbidden-type]"),
]


@pytest.mark.parametrize(("options", "message"), LIMITS)
def test_limits(command, options, message) -> None:
    code, out, error = command("lint", DATA / "small_ge_proto.txt", *options)
    assert (code, error) == (int(message is not None), "")
    assert (message or "no findings") in out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--forbid", "DynamicQaunt"], "did you mean DynamicQuant?"),
        (["--min-quantised", "95"], "must be a percentage such as 95%, got 95"),
        (["--min-quantised", "most"], "must be a percentage such as 95%, got most"),
        (["--max-nodes", "many"], "invalid int value: 'many'"),
    ],
)
def test_wrong_limits_are_refused(command, options, message) -> None:
    code, _, error = command("lint", DATA / "small_ge_proto.txt", *options)
    assert (code, message in error) == (2, True), error


@pytest.fixture
def mixed(tmp_path) -> Path:
    """A folder with a dump that cannot be read between two that can."""
    folder = tmp_path / "mixed"
    folder.mkdir()
    (folder / "a.txt").write_text(INT4)
    (folder / "b.txt").write_text(INT4.replace('input: "arg2_1:0"', 'input: "gone:0"', 1))
    (folder / "c.txt").write_text((DATA / "small_ge_proto.txt").read_text())
    return folder


def test_an_unreadable_file_does_not_stop_the_others(command, mixed) -> None:
    code, out, error = command("lint", mixed)
    assert (code, error.count("\n")) == (2, 1)
    assert "b.txt: GroupQuant: its input" in error
    assert "a.txt: error: GroupQuant: y is int4" in out
    facts = json.loads(command("lint", mixed, "--format", "json")[1])
    assert {fact["rule"] for fact in facts if fact["dump"].endswith("b.txt")} == {"unreadable"}


def test_annotations(command, mixed, monkeypatch) -> None:
    monkeypatch.chdir(mixed.parent)
    _, out, _ = command("lint", mixed, "--format", "github", "--max-nodes", "17")
    lines = out.splitlines()
    assert (
        "::error file=mixed/a.txt,title=graph-quant float-desc::GroupQuant: y is int4, the desc says float32%0A" in out
    )
    assert any(line.startswith("::error file=mixed/b.txt,title=graph-quant unreadable::") for line in lines)
    assert any("title=graph-quant node-count::" in line for line in lines)
    assert all(line.startswith(("::error ", "::warning ")) for line in lines)


def test_annotations_point_at_the_python_line(command, tmp_path) -> None:
    path = tmp_path / "dump.py"
    path.write_text((DATA / "upstream_group_quant_int4_py.txt").read_text())
    source = dumps.load(path).nodes["GroupQuant"].source
    assert source.line
    _, out, _ = command("lint", path, "--format", "github", "--fail-on", "never", "--forbid", "GroupQuant")
    assert f"::error file={source.file},line={source.line},title=graph-quant forbidden-type::" in out


def test_annotations_are_escaped() -> None:
    from graph_quant.dumps.render.lint_formats import _escape

    assert _escape("a%b\nc,d:e", ",:") == "a%25b%0Ac%2Cd%3Ae"


def test_sarif(command, mixed, baseline, tmp_path) -> None:
    output = tmp_path / "lint.sarif"
    assert command("lint", mixed, "--format", "sarif", "-o", output)[0] == 2
    report = json.loads(output.read_text())
    (run,) = report["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert (report["version"], len(rules)) == ("2.1.0", len(set(rules)))
    assert {"float-desc", "unreadable"} <= set(rules)
    for result in run["results"]:
        assert rules[result["ruleIndex"]] == result["ruleId"]
        assert result["level"] in ("error", "warning", "note")
        assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    identities = [result["partialFingerprints"]["graphQuant/v1"] for result in run["results"]]
    assert len(identities) == len(set(identities))
    command("lint", write_dump(tmp_path, INT4), "--baseline", baseline, "--format", "sarif", "-o", output)
    states = {result["baselineState"] for result in json.loads(output.read_text())["runs"][0]["results"]}
    assert states == {"unchanged"}


def test_junit(command, mixed, tmp_path) -> None:
    output = tmp_path / "lint.xml"
    assert command("lint", mixed, "--format", "junit", "-o", output)[0] == 2
    root = ElementTree.parse(output).getroot()
    counts = {Path(suite.attrib["name"]).name: (suite.attrib["failures"], suite.attrib["errors"]) for suite in root}
    assert counts == {"a.txt": ("1", "0"), "b.txt": ("0", "1"), "c.txt": ("0", "0")}
    assert (root.attrib["failures"], root.attrib["errors"]) == ("1", "1")
    assert [case.attrib["name"] for case in root.iter("testcase") if case.find("failure") is not None] == ["float-desc"]
    command("lint", mixed / "a.txt", "--format", "junit", "-o", output, "--fail-on", "never")
    assert ElementTree.parse(output).getroot().attrib["failures"] == "0"
