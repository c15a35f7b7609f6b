"""What changed between two graphs, found by structure."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf import text_format
from graph_quant import dumps
from graph_quant.ge.protobuf import schema

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


def test_formats_do_not_matter(command):
    code, out, error = command("diff", INT4, INT4.with_suffix(".pbtxt"))
    assert (code, out, error) == (0, "no difference in 14 nodes\n", "")


def test_names_and_order_do_not_matter(command, tmp_path):
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


GE = DATA / "small_ge_proto.txt"
READABLE = DATA / "small_ge_readable.txt"
INPUT_LAYOUT = 'dim: -1\n    }\n    layout: "ND"\n    device_type: "CPU"\n  }\n  output_desc'  # of the desc of an input


@pytest.mark.parametrize(
    ("path", "before", "after", "expected"),
    [
        pytest.param(READABLE, "[0.900000]", "[0.800000]", "value: [0.900000] -> [0.800000]", id="printed constant"),
        pytest.param(READABLE, "value: [2]", "value: [3]", "value: [2] -> [3]", id="printed size"),
        pytest.param(READABLE, "else_branch: %If_0_else", "else_branch: %gone", "graph else_branch:", id="lost branch"),
        pytest.param(READABLE, 'graph("If_0_else")', 'graph("other")', "graph else_branch:", id="renamed branch"),
        pytest.param(GE, 'subgraph_name: "same"', 'subgraph_name: "gone"', "graph else_branch:", id="lost subgraph"),
        pytest.param(
            DATA / "small_fx.txt", "class false_graph_0(", "class other_graph(", "graph else_branch:", id="fx"
        ),
        pytest.param(INT4, "_output_dtypes", None, "~ the graph", id="dtypes of the results"),
        pytest.param(INT4, "_input_placements", None, "~ the graph", id="where inputs are"),
        pytest.param(INT4, "dim: -1", "dim: 16", "desc sizes: [[-1, -1]] -> [[16, 16]]", id="sizes of an input"),
        pytest.param(
            INT4,
            INPUT_LAYOUT,
            INPUT_LAYOUT.replace("ND", "NCHW"),
            "format input 0: ND -> NCHW",
            id="layout of an input",
        ),
    ],
)
def test_single_changes_are_found(command, tmp_path, path, before, after, expected):
    text = path.read_text()
    changed = text.replace(before, after) if after else _with_another_number(text, before)
    assert changed != text
    (tmp_path / "changed").write_text(changed)
    code, out, error = command("diff", path, tmp_path / "changed")
    assert (code, error) == (1, "")
    assert expected in out, out


def _with_another_number(text: str, attribute: str) -> str:
    """The dump with another number in an attribute of the graph."""
    position = text.index(f'key: "{attribute}"')
    return text[:position] + re.sub(r"\bi: \d+", "i: 7", text[position:], count=1)


def test_the_input_of_the_caller_that_feeds_a_called_graph_is_compared(tmp_path):
    model = schema().ModelDef()
    text_format.Parse(GE.read_text(), model)
    fed = next(op for graph in model.graph for op in graph.op if "_parent_node_index" in op.attr)
    fed.attr["_parent_node_index"].i += 1
    (tmp_path / "changed").write_text(text_format.MessageToString(model))
    lines = list(dumps.load(GE).diff(dumps.load(tmp_path / "changed")).lines())
    assert any("wiring input of the caller: " in line for line in lines), lines


def test_wrong_descs_are_a_difference(tmp_path):
    right = DATA / "upstream_group_quant_default.txt"
    model = dumps.load(right).graph_def
    desc = next(op for op in model.op if op.type == "GroupQuant").output_desc[0]
    desc.dtype = 3 if desc.dtype != 3 else 1
    (tmp_path / "wrong.txt").write_text(str(model))
    difference = dumps.load(right).diff(dumps.load(tmp_path / "wrong.txt"))
    assert any(line.startswith("    desc disagrees: ") for line in difference.lines())


def _with_a_long_constant(path: Path, content: bytes) -> Path:
    """A dump of GE's with a constant of many elements."""
    model = schema().ModelDef()
    text_format.Parse(GE.read_text(), model)
    const = next(op for graph in model.graph for op in graph.op if op.type == "Const")
    tensor = const.attr["value"].t
    tensor.desc.dtype = schema().DataType.Value("DT_FLOAT")
    tensor.desc.shape.dim[:] = [len(content) // 4]
    tensor.data = content
    path.write_text(text_format.MessageToString(model))
    return path


def test_every_byte_of_a_constant_of_ge_counts(command, tmp_path):
    one = _with_a_long_constant(tmp_path / "one", bytes(1024))
    other = _with_a_long_constant(tmp_path / "other", bytes(512) + b"\1" + bytes(511))
    code, out, _ = command("diff", one, other)
    assert code == 1
    assert "attribute value: " in out


def test_missing_constants_are_mentioned(command):
    code, out, _ = command("diff", GE, GE)
    assert (code, out.splitlines()[1:]) == (0, ["neither of the two files states: the bytes of constants (1 nodes)"])


MODULES = """
import sys
import torch, torch_npu
from graph_quant import nn

class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = (torch.nn.Linear(16, 16, dtype=torch.float16) for _ in range(2))

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x))) * 0.5

torch.manual_seed(0)
x = torch.randn(4, 16, dtype=torch.float16)
for name in ("static", "dynamic"):
    model = torch.nn.Sequential(*(Layer() for _ in range(3))).eval()
    with nn.observe(model) as seen:
        model(x)
    nn.quantize_(model, nn.StaticW8A8() if name == "static" else nn.DynamicW8A8(), observations=seen)
    torch._dynamo.reset()
    with torch.no_grad():
        torch.compile(model.npu(), backend="npu", options={"dump": f"{sys.argv[1]}/{name}"})(x.npu())
"""


def test_weights_and_modules_are_matched_first(command, tmp_path):
    done = subprocess.run([sys.executable, "-m", "graph_quant", "run", "-c", MODULES, tmp_path], capture_output=True)
    assert done.returncode == 0, done.stderr
    paths = [tmp_path / name / "Sequential.txt" for name in ("static", "dynamic")]
    difference = dumps.load(paths[0]).diff(dumps.load(paths[1]))
    for before, after in difference.pairs.items():
        one, two = difference.old.nodes[before], difference.new.nodes[after]
        assert one.source.module == two.source.module, (before, after)
    changed = [node.source.module for node in (*difference.removed, *difference.added)]
    assert not [module for module in changed if module.endswith(".weight")]
    code, out, _ = command("diff", *paths)
    lines = out.splitlines()
    assert code == 1
    assert any(line.startswith("module *.up: ") and line.endswith(" in each of 3") for line in lines), out
    assert lines.index("") < next(number for number, line in enumerate(lines) if line.startswith(("- ", "+ ", "~ ")))
    assert json.loads(command("diff", *paths, "--format", "json")[1])["modules"]["0.up"]["added"]
