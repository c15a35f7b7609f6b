"""``graph-quant completion``: completion scripts for shells."""

import argparse
from collections.abc import Iterator
from typing import Any

_FILES = ("dump", "dumps", "before", "after", "script", "source")

_EPILOG = """\
examples:
  graph-quant completion bash > ~/.local/share/bash-completion/completions/graph-quant
  graph-quant completion zsh > ~/.zfunc/_graph-quant          # with ~/.zfunc in fpath
  eval "$(graph-quant completion bash)"                       # for this shell alone"""


def add_parser(commands: "argparse._SubParsersAction[Any]") -> None:
    """Declare the command."""
    import shtab

    parser = commands.add_parser(
        "completion",
        help="print a completion script for a shell",
        description="Print a script that lets a shell complete commands, options and file names.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", choices=shtab.SUPPORTED_SHELLS, help="the shell")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    import shtab

    from . import parser

    top = parser()
    for action in _actions(top):
        if action.metavar == "FILE" or action.dest in _FILES:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
    print(shtab.complete(top, shell=options.shell))
    return 0


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from _actions(inner)
