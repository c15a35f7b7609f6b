"""graph-quant completion: a script that the shell itself accepts and completes with."""

import shutil
import subprocess

import pytest
from graph_quant.cli import COMMANDS, main


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_bash_completes_commands_and_options(capsys: pytest.CaptureFixture[str], tmp_path) -> None:
    assert main(["completion", "bash"]) == 0
    script = tmp_path / "completion"
    script.write_text(capsys.readouterr().out)
    commands = """
source "$1"
complete_line() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _shtab_graph_quant; echo "${COMPREPLY[@]}"; }
complete_line graph-quant ''
complete_line graph-quant verify --min
complete_line graph-quant lint --fail-on w
cd "$2"; complete_line graph-quant inspect gra
"""
    (tmp_path / "graph.txt").touch()
    done = subprocess.run(
        ["bash", "-c", commands, "bash", script, tmp_path], capture_output=True, text=True, check=True
    )
    commands, option, value, file = done.stdout.splitlines()
    assert set(COMMANDS) <= set(commands.split())
    assert (option, value, file) == ("--min-sqnr", "warning", "graph.txt")


def test_unknown_shell(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["completion", "nosh"])
    assert "bash" in capsys.readouterr().err
