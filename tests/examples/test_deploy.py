"""The way from a float model to a gate runs in one script, and each step keeps what it says."""

import json
import runpy
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "examples" / "deploy" / "deploy.py"


def test_a_model_is_deployed(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "argv", ["deploy.py", "--out", str(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(SCRIPT), run_name="__main__")
    printed = capsys.readouterr().out
    assert ended.value.code == 0, printed
    measured = json.loads((tmp_path / "measured.json").read_text())
    assert measured["sqnr"] >= 27
    assert measured["size"] < 0.75
    schemes = set(json.loads((tmp_path / "recipe.json").read_text())["schemes"].values())
    assert schemes == {"W8A8", "W8A16"}
    assert "the graph of the loaded model gives the bits of the quantised one: True" in printed
    assert "0 errors, 0 warnings" in printed
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "accuracy.html", "checkpoint", "graphs", "lint.json", "measured.json", "recipe.json",
    ]  # fmt: skip
