"""graph-quant run: Python, with torch_npu ready."""

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from ..start import preload
from .errors import UsageError

_SITE = Path(__file__).parent.parent / "start" / "site"


def add_parser(commands: "argparse._SubParsersAction[Any]") -> None:
    """Describe the command; its arguments are Python's own."""
    parser = commands.add_parser(
        "run",
        help="run a Python script or module written for an NPU",
        description="Starts Python with torch_npu and TorchAir ready: on the host NPU where there is no CANN. "
        "Everything behind `run` goes to Python as it stands, so a script sees the arguments, standard input, "
        "exit code and signals it would see under python.",
        usage="graph-quant run [python option ...] (script.py | -m module | -c code) [argument ...]",
    )
    parser.set_defaults(run=lambda _: 0)


def execute(arguments: list[str]) -> int:
    """Become the Python that runs the script."""
    try:
        preload.switch()
    except preload.HostNpuError as error:
        raise UsageError(error) from error
    environment = dict(os.environ)
    inherited = environment.get("PYTHONPATH")
    environment["PYTHONPATH"] = os.pathsep.join([str(_SITE), *([inherited] if inherited else [])])
    sys.stdout.flush()
    os.execve(sys.executable, [sys.executable, *arguments], environment)
