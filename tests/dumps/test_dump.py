"""A dump as Python and notebooks show it, and what the commands say of names that it does not have."""

from html.parser import HTMLParser
from pathlib import Path

import pytest
from graph_quant import dumps

INT4 = Path(__file__).parent / "data" / "upstream_group_quant_int4.txt"


def test_repr():
    shown = "<Dump (txt) of 14 nodes: 3 inputs, 1 output; 3 Data, 3 Const, 2 Reshape, 1 GroupQuant>"
    assert repr(dumps.load(INT4)) == shown


def test_a_notebook_shows_the_graph():
    class Frame(HTMLParser):
        page = ""

        def handle_starttag(self, tag, attrs):
            assert tag == "iframe"
            self.page = dict(attrs)["srcdoc"]

    frame = Frame()
    frame.feed(dumps.load(INT4)._repr_html_())
    assert frame.page.startswith("<!doctype html>")
    assert "GroupQuant" in frame.page


def test_notebook_page_without_torch_imported_before(run_python):
    code = "import sys; from graph_quant import dumps; print(len(dumps.load(sys.argv[1])._repr_html_()) > 1000)"
    assert run_python(code, str(INT4)).stdout == "True\n"


@pytest.mark.parametrize("verb", ["inspect", "replay"])
def test_unknown_symbol(command, verb):
    code, _, error = command(verb, INT4, "--size", "nosuch=4")
    assert (code, error) == (2, "graph-quant: --size: the dump has no symbol nosuch; it has s27, s75, s77\n")


def test_missing_source(command, tmp_path):
    code, _, error = command("inspect", INT4, "--source", tmp_path / "nofile")
    assert (code, error) == (2, f"graph-quant: the source {tmp_path}/nofile: No such file or directory\n")


def test_replay_without_files_prints_results(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, _ = command("replay", INT4, "--size", "s77=8")
    assert code == 0
    assert out.startswith("output0: int32[8, 2] from -")
    assert ", mean " in out
    assert not list(tmp_path.iterdir())
