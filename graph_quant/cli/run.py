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

_DESCRIPTION = (
    "Starts Python with torch_npu and TorchAir: on the host NPU if there is no CANN. All arguments after `run` are "
    "passed to Python unchanged, and so are standard input, exit code and signals. Options of `run` itself precede "
    "them. `--ranks N` starts N processes on this machine as ranks of torch.distributed: each line of output is "
    "prefixed with its rank, and the first failure stops all. `--dump DIR` writes the GE graph of each function that "
    "the npu backend compiles to DIR, in a file named after the function; inspect, lint and diff read it."
)


def add_parser(commands: "argparse._SubParsersAction[Any]") -> None:
    """Declare the command; its arguments are those of Python."""
    parser = commands.add_parser(
        "run",
        help="run a Python script or module written for an NPU",
        description=_DESCRIPTION,
        usage="graph-quant run [--ranks N] [--dump DIR] [python option ...] (script.py | -m module | -c code) "
        "[argument ...]",
    )
    parser.set_defaults(run=lambda _: 0)


def execute(arguments: list[str]) -> int:
    """Replace this process by Python, or start one per rank."""
    try:
        preload.switch()
    except preload.HostNpuError as error:
        raise UsageError(error) from error
    count, folder, rest = _parse_own(arguments)
    environment = npu_environment()
    if folder:
        environment["GRAPH_QUANT_DUMP"] = str(_make_folder(folder))
    sys.stdout.flush()
    if count is None:
        os.execve(sys.executable, [sys.executable, *rest], environment)
    return ranks.run_ranks([sys.executable, *rest], environment, count)


def _parse_own(arguments: list[str]) -> tuple[int | None, str, list[str]]:
    """Split the options of the command, which come first, off the arguments of Python."""
    count, folder, rest = None, "", arguments
    while rest and rest[0].partition("=")[0] in ("--ranks", "--dump"):
        name, equals, value = rest[0].partition("=")
        value = value if equals else "".join(rest[1:2])
        rest = rest[1:] if equals else rest[2:]
        if name == "--dump":
            if not value:
                raise UsageError("--dump must be followed by a folder")
            folder = value
        elif not value.isdecimal() or int(value) < 1:
            raise UsageError(f"--ranks must be followed by a number of ranks, got {value!r}")
        else:
            count = int(value)
    if (count is not None or folder) and not rest:
        raise UsageError(f"{'--dump' if folder else '--ranks'} must be followed by a script, -m module or -c code")
    return count, folder, rest


def _make_folder(folder: str) -> Path:
    path = Path(folder).absolute()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--dump {folder}: {error.strerror or type(error).__name__}") from error
    return path


def npu_environment() -> dict[str, str]:
    """Return the environment in which Python loads torch_npu."""
    inherited = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(_SITE), *([inherited] if inherited else [])])}
