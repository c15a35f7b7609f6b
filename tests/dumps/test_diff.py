"""What changed between two graphs, found by structure."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from graph_quant import dumps

DATA = Path(__file__).parent / "data"
INT4 = DATA / "upstream_group_quant_int4.txt"
TEXT = INT4.read_text()


def edited(tmp_path: Path, *changes: tuple[str, str]) -> Path:
    text = TEXT
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    path = tmp_path / "edited.txt"
    path.write_text(text)
    return path


def test_formats_are_no_difference(command):
    code, out, error = command("diff", INT4, INT4.with_suffix(".pbtxt"))
    assert (code, out, error) == (0, "no difference in 14 nodes\n", "")


def test_other_names_and_another_order_are_no_difference(command, tmp_path):
    names = re.findall(r'^  name: "(\w+)"', TEXT, re.MULTILINE)
    renamed = TEXT
    for number, name in enumerate(names):
        renamed = re.sub(rf'"{name}(:0)?"', rf'"other{number}\1"', renamed)
    for op_type in re.findall(r'type: "(other\d+)"', renamed):
        renamed = renamed.replace(f'type: "{op_type}"', f'type: "{names[int(op_type[5:])]}"')
    path = tmp_path / "renamed.txt"
    path.write_text(renamed)
    code, out, _ = command("diff", INT4, path)
    assert (code, out) == (0, "no difference in 14 nodes, 14 under another name\n")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            [("i: 29", "i: 2")],
            ["~ GroupQuant: GroupQuant", "attribute dst_type: int4 -> int8", "dtype y: int4 -> int8"],
        ),
        ([("torch.Size([s77, s27])", "torch.Size([s77, 32])")], ["shape y: float16[s77, s27] -> float16[s77, 32]"]),
        (
            [('input: "Bitcast:0"\n  input: "Div:0"', 'input: "Bitcast:0"\n  input: "ConcatV2:0"')],
            ["~ Reshape_1: Reshape", "wiring shape: Div:0 -> ConcatV2:0"],
        ),
        (
            [('input: "Reshape_1:0"', 'input: "Bitcast:0"')],
            ["~ NetOutput: NetOutput", "wiring input0: Reshape_1:0 -> Bitcast:0"],
        ),
        (
            [('s: "[1, 8]"', 's: "[1, 4]"'), (r"\001\000\000\000\010", r"\001\000\000\000\004")],
            ["attribute value: [1, 8] -> [1, 4]"],
        ),
    ],
)
def test_changes_are_named(command, tmp_path, changes, expected):
    code, out, _ = command("diff", INT4, edited(tmp_path, *changes))
    assert code == 1
    for line in expected:
        assert line in out
    assert "\n- " not in f"\n{out}", "a changed node is not a removed and an added one"


def test_added_and_removed_nodes():
    upstream, before = dumps.load(INT4), dumps.load(DATA / "upstream_group_quant_default.txt")
    difference = before.diff(upstream)
    assert not difference.removed
    assert sorted(node.type for node in difference.added) == [
        "Bitcast", "ConcatV2", "Const", "Const", "Const", "Div", "Reshape", "Reshape", "Shape"
    ]  # fmt: skip
    assert {before for before, _ in difference.changed} == {"GroupQuant", "NetOutput"}
    back = upstream.diff(before)
    assert {node.name for node in back.removed} == {node.name for node in difference.added}


def test_this_package_against_upstream(live, command):
    code, out, _ = command("diff", INT4, live["group_quant_int4"].txt, "--format", "json")
    facts = json.loads(out)
    assert code == 1
    assert not facts["equal"]
    assert {node["type"] for node in facts["removed"]} >= {"Shape", "Div", "ConcatV2"}
    assert {"GroupQuant", "Bitcast"}.isdisjoint(node["type"] for node in [*facts["removed"], *facts["added"]])


def test_pages(command, tmp_path):
    code, page, _ = command("diff", INT4, edited(tmp_path, ("i: 29", "i: 2")), "--format", "html")
    assert code == 1
    assert '"kind":"changed"' in page
