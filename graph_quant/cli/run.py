"""``graph-quant run``: Python with torch_npu loaded."""

import argparse
import os
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

from ..start import preload
from ..start.refusal_reports import TRACEBACK
from . import ranks
from .errors import UsageError

# Options of Python that the next argument belongs to.
_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")
_SITE = Path(__file__).parent.parent / "start" / "site"

_DESCRIPTION = (
    "Starts Python with torch_npu and TorchAir: on the host NPU if there is no CANN. All arguments after `run` are "
    "passed to Python unchanged, and so are standard input, exit code and signals. Options of `run` itself precede "
    "them. `--ranks N` starts N processes on this machine as ranks of torch.distributed: each line of output is "
    "prefixed with its rank, and the first failure stops all. `--dump DIR` writes the GE graph of each function that "
    "the npu backend compiles to DIR, in a file named after the function; inspect, lint and diff read it. "
    "`--verify DIR` compares each step of vLLM's engine with eager execution, prints the first difference of each "
    "graph, and writes a file for each process to DIR. A call that a rule refuses ends the script with the rule, the "
    "script's line and the operator's page; `--traceback` shows the whole traceback."
)


def add_parser(commands: "argparse._SubParsersAction[Any]") -> None:
    """Declare the command; its arguments are those of Python."""
    parser = commands.add_parser(
        "run",
        help="run a Python script or module written for an NPU",
        description=_DESCRIPTION,
        usage="graph-quant run [--ranks N] [--dump DIR] [--verify DIR] [--traceback] [python option ...] "
        "(script.py | -m module | -c code) [argument ...]",
    )
    parser.set_defaults(run=lambda _: 0)


def execute(arguments: list[str]) -> int:
    """Replace this process by Python, or start one per rank."""
    try:
        preload.switch()
    except preload.HostNpuError as error:
        raise UsageError(error) from error
    own, rest = _parse_own(arguments)
    rest = _drop_separator(rest)
    environment = npu_environment()
    if own.dump:
        environment["GRAPH_QUANT_DUMP"] = str(_make_folder("--dump", own.dump))
    if own.verify:
        environment["GRAPH_QUANT_VERIFY"] = str(_make_folder("--verify", own.verify))
    if own.traceback:
        environment[TRACEBACK] = "on"
    sys.stdout.flush()
    if own.ranks is None:
        os.execve(sys.executable, [sys.executable, *rest], environment)
    return ranks.run_ranks([sys.executable, *rest], environment, own.ranks)


class _Options(NamedTuple):
    """The options of the command itself."""

    ranks: int | None = None
    dump: str = ""
    verify: str = ""
    traceback: bool = False


def _parse_own(arguments: list[str]) -> tuple[_Options, list[str]]:
    """Split the options of the command, which come first, off the arguments of Python."""
    own, rest = _Options(), arguments
    while rest and rest[0].partition("=")[0] in ("--ranks", "--dump", "--verify", "--traceback"):
        name, equals, value = rest[0].partition("=")
        if rest[0] == "--traceback":
            own, rest = own._replace(traceback=True), rest[1:]
            continue
        value = value if equals else "".join(rest[1:2])
        rest = rest[1:] if equals else rest[2:]
        if name in ("--dump", "--verify"):
            if not value:
                raise UsageError(f"{name} must be followed by a folder")
            own = own._replace(dump=value) if name == "--dump" else own._replace(verify=value)
        elif name == "--traceback":
            raise UsageError("--traceback takes no value")
        elif not value.isdecimal() or int(value) < 1:
            raise UsageError(f"--ranks must be followed by a number of ranks, got {value!r}")
        else:
            own = own._replace(ranks=int(value))
    if own != _Options() and not rest:
        last = "--dump" if own.dump else "--verify" if own.verify else "--ranks" if own.ranks else "--traceback"
        raise UsageError(f"{last} must be followed by a script, -m module or -c code")
    return own, rest


def _drop_separator(arguments: list[str]) -> list[str]:
    """Drop a ``--`` right after the script, which verify, plan and compare take there too."""
    index = 0
    while index < len(arguments) and arguments[index].startswith("-"):
        if re.match(r"-[a-zA-Z]*[cm]|-$", arguments[index]) and arguments[index][1:2] not in ("W", "X"):
            return arguments
        index += 2 if arguments[index] in _WITH_VALUE else 1
    return (
        [*arguments[: index + 1], *arguments[index + 2 :]] if arguments[index + 1 : index + 2] == ["--"] else arguments
    )


def _make_folder(option: str, folder: str) -> Path:
    path = Path(folder).absolute()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{option} {folder}: {error.strerror or type(error).__name__}") from error
    return path


def npu_environment() -> dict[str, str]:
    """Return the environment in which Python loads torch_npu."""
    inherited = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(_SITE), *([inherited] if inherited else [])])}
