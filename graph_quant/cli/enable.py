"""``graph-quant enable``: make plain Python in this environment load graph_quant."""

import argparse
import sys
from typing import Any

from ..start.enabling import enabling_file
from .errors import UsageError

# A .pth file needs one line; it does nothing if graph_quant has been uninstalled.
_LINE = r"""import sys; exec("try:\n import graph_quant_start\nexcept ImportError: pass")""" + "\n"


def add_parser(commands: "argparse._SubParsersAction[Any]") -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "enable",
        help="make torch_npu importable in plain Python, notebooks and debuggers of this environment",
        description="Writes one .pth file into this environment, so that every Python in it can import torch_npu: "
        "on the host NPU if there is no CANN. It acts when torch is imported and has no cost for other programs. "
        "`graph-quant disable` removes it.",
    )
    parser.set_defaults(run=run)


def run(_options: argparse.Namespace) -> int:
    """Write the .pth file."""
    path = enabling_file()
    try:
        path.write_text(_LINE, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error
    print(f"enabled: {sys.executable} and everything else in this environment is ready for torch_npu ({path})")
    return 0
