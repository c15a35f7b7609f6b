"""What cannot be read is said in one line, with exit code 2 and no traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

DATA = Path(__file__).parent / "data"
GRAPH = (DATA / "upstream_group_quant_int4.txt").read_text()
OP = 'op {{\n  name: "{}"\n  type: "{}"\n  input: "{}"\n  output_desc {{\n    name: "y"\n  }}\n}}\n'

BAD = {
    "empty": (b"", "the file is empty"),
    "blank": (b" \n\n", "the file is empty"),
    "binary": (bytes(range(256)), "this is not text"),
    "zero bytes": (b'name: "g"\0', "this is not text"),
    "another kind of text": (b"# A title\n\nSome words.\n", "this is not a GE graph dump"),
    "a program": (b"import os\nprint(os.getcwd())\n", "this is not a GE graph dump"),
    "truncated": (GRAPH[:4000].encode(), "not a GE graph in text form"),
    "truncated pbtxt": ((DATA / "upstream_group_quant_int4.pbtxt").read_bytes()[:5000], "not a GE graph in text form"),
    "truncated py": (
        (DATA / "upstream_group_quant_int4_py.txt").read_bytes()[:-60],
        "the file ends inside a statement",
    ),
    "corrupt": (GRAPH.replace("output_desc {", "output_desc [", 1).encode(), "not a GE graph in text form"),
    "an unknown field": (GRAPH.replace("layout:", "lay_out:", 1).encode(), "not a GE graph in text form"),
    "a number beyond 64 bits": (GRAPH.replace("i: 29", f"i: {1 << 70}").encode(), "not a GE graph in text form"),
    "an enum beyond 32 bits": (GRAPH.replace("DT_FLOAT16", "9" * 40, 1).encode(), "not a GE graph in text form"),
    "no nodes": (b'name: "g"\n', "the graph has no nodes"),
    "a cycle": ((OP.format("a", "Relu", "b:0") + OP.format("b", "Relu", "a:0")).encode(), "the graph has a cycle"),
    "itself": (OP.format("a", "Relu", "a:0").encode(), "the graph has a cycle"),
    "a missing input": (GRAPH.replace('input: "Shape:0"', 'input: "Gone:0"').encode(), "comes from Gone"),
    "a missing output": (GRAPH.replace('input: "Shape:0"', 'input: "Shape:4"').encode(), "is output 4 of Shape"),
    "no such form": (GRAPH.replace('input: "Shape:0"', 'input: "Shape"').encode(), "not of the form node:output"),
    "two of a name": (GRAPH.replace('name: "Bitcast"', 'name: "Shape"').encode(), "two nodes are named Shape"),
    "nameless": (GRAPH.replace('name: "Shape"', 'name: ""').encode(), "a node has no name"),
    "a terminal escape": (
        GRAPH.replace('"Shape"', r'"\033[2JShape"').encode(),
        r"control characters in its name or type: \x1b[2JShape",
    ),
    "text from right to left": (GRAPH.replace('"Shape"', '"\u202eShape"').encode(), r"\u202eShape: "),
    "nested without end": (("attr { value { g { op { " * 3000).encode(), "nested too deeply"),
    "an undefined variable": (b"# x\nfrom torchair import ge\na_0 = ge.Relu(b_0)\n", "which nothing before it assigns"),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("verb", ["inspect", "lint", "diff", "replay"])
def test_bad_files(command, tmp_path, name, verb):
    content, message = BAD[name]
    path = tmp_path / "dump"
    path.write_bytes(content)
    arguments = {"diff": [path, DATA / "upstream_group_quant_int4.txt"], "replay": [path, "-o", tmp_path / "out"]}
    code, out, error = command(verb, *arguments.get(verb, [path]))
    assert (code, out) == (2, "")
    assert message in error
    assert error.startswith("graph-quant: ")
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == [path]


def test_missing_files(command, tmp_path):
    assert command("inspect", tmp_path / "none.txt")[::2] == (
        2,
        f"graph-quant: {tmp_path}/none.txt: No such file or directory\n",
    )
    code, _, error = command("lint", tmp_path)
    assert code == 2
    assert error == f"graph-quant: {tmp_path}: there is no dump in this folder\n"
    for verb in ("inspect", "diff"):
        code, _, error = command(verb, tmp_path)
        assert (code, error) == (2, f"graph-quant: {tmp_path}: there is no dump in this folder\n")
    code, _, error = command("replay", tmp_path)
    assert code == 2
    assert "this is a folder" in error
    code, _, error = command("inspect", DATA / "upstream_group_quant_int4.txt", "-o", tmp_path / "no" / "file")
    assert code == 2
    assert "No such file" in error


def test_an_operator_that_ge_does_not_have(command, tmp_path):
    path = tmp_path / "dump.txt"
    path.write_text(GRAPH.replace('type: "GroupQuant"', 'type: "Frobnicate"'))
    code, out, error = command("inspect", path)
    assert code == 2
    assert error == "graph-quant: GE has no operator of type Frobnicate; what follows from it is unknown\n"
    assert "GroupQuant: Frobnicate(x=arg2_1" in out, "what can be read is shown all the same"
    code, _, error = command("replay", path, "-o", tmp_path / "out")
    assert code == 2
    assert "no host kernel for Frobnicate" in error


def test_hostile_strings_are_escaped(command, tmp_path):
    path = tmp_path / "dump.txt"
    evil = "../<script>alert(1)</script>"
    number = 'key: "num_axes"\n    value {\n      '
    renamed = GRAPH.replace('name: "GroupQuant"', f'name: "{evil}"').replace('"GroupQuant:0"', f'"{evil}:0"')
    path.write_text(renamed.replace(f"{number}i: -1", number + r's: "\033[2J"'))
    code, out, _ = command("inspect", path, "--no-fold")
    assert code == 0
    assert "../<script>alert(1)</script>: GroupQuant(" in out
    assert r"num_axes=\x1b[2J" in out
    assert "\x1b" not in out
    _, page, _ = command("inspect", path, "--format", "html")
    assert "<script>alert" not in page


def test_a_huge_attribute_is_shortened(command, tmp_path):
    path = tmp_path / "dump.txt"
    path.write_text(
        GRAPH.replace(
            'key: "num_axes"\n    value {\n      i: -1', f'key: "num_axes"\n    value {{\n      s: "{"x" * 10**6}"'
        )
    )
    code, out, _ = command("inspect", path, "--no-fold")
    assert code == 0
    assert max(map(len, out.splitlines())) < 1000


@pytest.mark.parametrize("size", ["s77", "s77=x", "=3", "s77=-1", "s77=" + "9" * 30])
def test_invalid_sizes(command, size):
    code, _, error = command("inspect", DATA / "upstream_group_quant_int4.txt", "--size", size)
    assert code == 2
    assert "--size takes SYMBOL=NUMBER" in error


def test_an_input_without_a_desc_is_not_replayed(command, tmp_path):
    path = tmp_path / "graph.txt"
    path.write_text(
        'op { name: "x" type: "Data" attr { key: "index" value { i: 0 } } }\n' + OP.format("y", "Relu", "x:0")
    )
    code, _, error = command("replay", path, "-o", tmp_path / "out")
    assert code == 2
    assert error.count("\n") == 1


CONST = (
    'op { name: "c" type: "Const" attr { key: "value" value { t { desc { dtype: DT_FLOAT shape { dim: 2 dim: 3 } } '
    'data: "%s" } } } output_desc { name: "y" dtype: DT_FLOAT shape { dim: 2 dim: 3 } } }\n'
)
NET_OUTPUT = 'op {{ name: "{0}" type: "NetOutput" input: "{1}:0" input_desc {{ name: "input0" }} }}\n'


@pytest.mark.parametrize("data", ["", "abcd", "a" * 28])
def test_a_constant_without_its_data_is_not_replayed(command, tmp_path, data):
    path = tmp_path / "graph.txt"
    path.write_text(CONST % data + NET_OUTPUT.format("out", "c"))
    code, out, error = command("replay", path, "-o", tmp_path / "out")
    assert (code, out) == (2, "")
    assert f"claims to be float32[2, 3] and carries {len(data)} bytes" in error
    assert "'c' (Const)" in error


def test_two_outputs_are_not_replayed(command, tmp_path):
    path = tmp_path / "graph.txt"
    path.write_text(CONST % ("a" * 24) + NET_OUTPUT.format("one", "c") + NET_OUTPUT.format("other", "c"))
    code, out, error = command("replay", path, "-o", tmp_path / "out")
    assert (code, out) == (2, "")
    assert "it has 2 NetOutput nodes, one, other" in error
