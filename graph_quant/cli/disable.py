"""``graph-quant disable``: undo ``enable``."""

import argparse
from typing import Any

from ..start.enabling import enabling_file
from .errors import UsageError


def add_parser(commands: "argparse._SubParsersAction[Any]") -> None:
    """Declare the command."""
    parser = commands.add_parser("disable", help="undo `enable`", description="Removes the file that `enable` wrote.")
    parser.set_defaults(run=run)


def run(_options: argparse.Namespace) -> int:
    """Remove the .pth file."""
    path = enabling_file()
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(f"cannot remove {path}: {error.strerror}") from error
    print("disabled: this environment no longer loads graph_quant at start")
    return 0
