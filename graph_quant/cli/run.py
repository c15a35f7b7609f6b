"""``graph-quant run``: Python with torch_npu loaded."""

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from ..start import preload
from . import ranks
from .errors import UsageError

_SITE = Path(__file__).parent.parent / "start" / "site"


def add_parser(commands: "argparse._SubParsersAction[Any]") -> None:
    """Declare the command; its arguments are those of Python."""
    parser = commands.add_parser(
        "run",
        help="run a Python script or module written for an NPU",
        description="Starts Python with torch_npu and TorchAir: on the host NPU if there is no CANN. All arguments "
        "after `run` are passed to Python unchanged, and so are standard input, exit code and signals. `--ranks N`, as "
        "the first argument, starts N processes on this machine as ranks of torch.distributed: each line of output is "
        "prefixed with its rank, and the first failure stops all.",
        usage="graph-quant run [--ranks N] [python option ...] (script.py | -m module | -c code) [argument ...]",
    )
    parser.set_defaults(run=lambda _: 0)


def execute(arguments: list[str]) -> int:
    """Replace this process by Python, or start one per rank."""
    try:
        preload.switch()
    except preload.HostNpuError as error:
        raise UsageError(error) from error
    environment = npu_environment()
    sys.stdout.flush()
    if not arguments or arguments[0].partition("=")[0] != "--ranks":
        os.execve(sys.executable, [sys.executable, *arguments], environment)
    count, rest = _parse_ranks(arguments)
    return ranks.run_ranks([sys.executable, *rest], environment, count)


def npu_environment() -> dict[str, str]:
    """Return the environment in which Python loads torch_npu."""
    inherited = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(_SITE), *([inherited] if inherited else [])])}


def _parse_ranks(arguments: list[str]) -> tuple[int, list[str]]:
    """Split the number of ranks off the arguments."""
    _, equals, number = arguments[0].partition("=")
    rest = arguments[1:] if equals else arguments[2:]
    number = number if equals else "".join(arguments[1:2])
    if not number.isdecimal() or int(number) < 1:
        raise UsageError(f"--ranks must be followed by a number of ranks, got {number!r}")
    if not rest:
        raise UsageError("--ranks must be followed by a script, -m module or -c code")
    return int(number), rest
