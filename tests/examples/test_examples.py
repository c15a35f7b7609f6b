"""Every example runs, and says what it set out to show. The models' tests run the three decoders."""

import io
import runpy
import sys
from pathlib import Path

import pytest
from rich.console import Console

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (
            "demo",
            [
                "npu:0",
                "group_quant int4",
                "every result equals the reference to the bit",
                "2 errors, 1 warning; 1 note",
            ],
        ),
        ("read_a_dump", ["pack int4", "gives the bits of the compiled call: True", "torch.int32"]),
    ],
)
def test_an_example(name, shown, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "argv", [name, "--out", str(tmp_path / "out")])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    printed = capsys.readouterr().out
    assert ended.value.code == 0
    for words in shown:
        assert words in printed


def test_the_demo_leaves_dumps_and_a_page(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(sys, "argv", ["demo", "--out", str(tmp_path)])
    demo = runpy.run_path(str(EXAMPLES / "demo.py"))
    nodes, results = demo["lower"](demo["LOWERINGS"][1], True, tmp_path, "int4")
    assert nodes == 4
    assert results[0].shape == (6, 4)
    assert (tmp_path / "int4.pbtxt").stat().st_size > 0


def test_the_demo_calls_nothing_equal_that_did_not_run(tmp_path, monkeypatch) -> None:
    demo = runpy.run_path(str(EXAMPLES / "demo.py"))
    monkeypatch.setenv("GRAPH_QUANT_PASSES", "no such pass")
    printed = Console(file=io.StringIO(), width=200)
    assert demo["show_lowerings"](printed, tmp_path) is False
    assert "fails" in printed.file.getvalue()
    assert "equal" not in printed.file.getvalue()
