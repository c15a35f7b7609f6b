"""graph-quant enable: plain python becomes ready in this environment."""

import argparse
import sys
from typing import Any

from ..start.enabling import enabling_file
from .errors import UsageError

# One line, as .pth files want it; it stays silent where graph_quant is not installed any more.
_LINE = r"""import sys; exec("try:\n import graph_quant_start\nexcept ImportError: pass")""" + "\n"


def add_parser(commands: "argparse._SubParsersAction[Any]") -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "enable",
        help="make plain python, notebooks and debuggers in this environment ready",
        description="Writes one .pth file into this environment, so that every Python in it can import torch_npu: "
        "on the host NPU where there is no CANN. It acts when torch is imported and costs other programs nothing. "
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
