"""run, verify, plan and compare take the arguments of a script in the same ways."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from graph_quant.cli import compare, main, plan, run, verify

COMMANDS = {"verify": verify, "plan": plan, "compare": compare}


class StartedError(Exception):
    """Python was started."""


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("separator", [[], ["--"]])
def test_what_the_command_does_not_know_is_for_the_script(command: str, separator: list[str], monkeypatch) -> None:
    taken: list[SimpleNamespace] = []
    monkeypatch.setattr(COMMANDS[command], "run", lambda options: taken.append(options) or 0)
    assert (
        main([command, "a.py", "--traceback" if command != "plan" else "--json", *separator, "--batch", "4", "text"])
        == 0
    )
    assert taken[0].arguments == ["--batch", "4", "text"]
    assert taken[0].own[:2] == [command, "a.py"]
    assert "--batch" not in taken[0].own


def test_options_of_the_same_name_go_to_the_script_after_the_separator(monkeypatch) -> None:
    taken: list[SimpleNamespace] = []
    monkeypatch.setattr(verify, "run", lambda options: taken.append(options) or 0)
    assert main(["verify", "a.py", "--all", "--layers", "2", "--", "--all"]) == 0
    assert taken[0].arguments == ["--layers", "2", "--all"]
    assert taken[0].own == ["verify", "a.py", "--all"]


def test_a_value_of_an_option_may_be_an_argument_of_the_script_too(monkeypatch) -> None:
    taken: list[SimpleNamespace] = []
    monkeypatch.setattr(verify, "run", lambda options: taken.append(options) or 0)
    assert main(["verify", "--model", "small", "a.py", "small"]) == 0
    assert (taken[0].own, taken[0].arguments) == (["verify", "--model", "small", "a.py"], ["small"])


@pytest.mark.parametrize(
    ("arguments", "passed"),
    [
        (["a.py", "--", "--batch", "4"], ["a.py", "--batch", "4"]),
        (["a.py", "--batch", "--", "4"], ["a.py", "--batch", "--", "4"]),
        (["-X", "dev", "-W", "error", "-u", "a.py", "--", "x"], ["-X", "dev", "-W", "error", "-u", "a.py", "x"]),
        (["-m", "pytest", "--", "x"], ["-m", "pytest", "--", "x"]),
        (["-um", "pytest", "--", "x"], ["-um", "pytest", "--", "x"]),
        (["-c", "print()", "--"], ["-c", "print()", "--"]),
        (["-", "--"], ["-", "--"]),
        ([], []),
    ],
)
def test_run_drops_the_separator_after_a_script(arguments: list[str], passed: list[str], monkeypatch) -> None:
    def start(_path: str, command: list[str], _environment: dict[str, str]) -> None:
        raise StartedError(command[1:])

    monkeypatch.setattr(run.os, "execve", start)
    with pytest.raises(StartedError) as started:
        run.execute(arguments)
    assert started.value.args[0] == passed
