"""Commands and options that are spelt wrong are answered with the right ones."""

from __future__ import annotations

import pytest
from graph_quant.cli import main


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["inspct", "a.txt"], "there is no command inspct; did you mean inspect?"),
        (["qqq"], "there is no command qqq; the commands are run, enable, "),
        (["lint", "a.txt", "--fail-one", "note"], "lint has no option --fail-one (--fail-on?)"),
        (["diff", "a", "b", "c"], "diff has no argument c"),
        (["verify", "a.py", "--min-sqn", "3"], "verify has no option --min-sqn (--min-sqnr?)"),
    ],
)
def test_suggestions(arguments, message, capsys) -> None:
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
