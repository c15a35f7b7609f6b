"""graph-quant run: Python, with torch_npu ready."""

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
    """Describe the command; its arguments are Python's own."""
    parser = commands.add_parser(
        "run",
        help="run a Python script or module written for an NPU",
        description="Starts Python with torch_npu and TorchAir ready: on the host NPU where there is no CANN. "
        "Everything behind `run` goes to Python as it stands, so a script sees the arguments, standard input, "
        "exit code and signals it would see under python. `--ranks N`, first, runs N of them on this machine as the "
        "ranks of torch.distributed: each line of output names its rank, and the first that fails stops all.",
        usage="graph-quant run [--ranks N] [python option ...] (script.py | -m module | -c code) [argument ...]",
    )
    parser.set_defaults(run=lambda _: 0)


def execute(arguments: list[str]) -> int:
    """Become the Python that runs the script, or start one for each rank."""
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
    """Return the environment in which Python has torch_npu ready."""
    inherited = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(_SITE), *([inherited] if inherited else [])])}


def _parse_ranks(arguments: list[str]) -> tuple[int, list[str]]:
    """Take the number of ranks off the arguments."""
    _, equals, number = arguments[0].partition("=")
    rest = arguments[1:] if equals else arguments[2:]
    number = number if equals else "".join(arguments[1:2])
    if not number.isdecimal() or int(number) < 1:
        raise UsageError(f"--ranks must be followed by a number of ranks, got {number!r}")
    if not rest:
        raise UsageError("--ranks must be followed by a script, -m module or -c code")
    return int(number), rest
