"""The graph-quant command."""

import argparse
import contextlib
import difflib
import os
import shlex
import sys
from collections.abc import Sequence
from importlib import import_module

from .errors import UsageError

# In the order of --help: commands for setup, then commands for graphs.
_SETUP_COMMANDS = ("run", "enable", "disable", "doctor", "operators", "symbols", "explain", "completion")
COMMANDS = (
    *_SETUP_COMMANDS,
    "inspect",
    "diff",
    "lint",
    "replay",
    "verify",
    "plan",
    "compare",
    "compare-device",
    "check",
)

_BROKEN_PIPE = 141  # what a shell reports for a process that SIGPIPE ended

_DESCRIPTION = (
    "Quantised graph mode for Ascend NPUs, on any machine: run NPU scripts without an NPU, and read GE graph dumps."
)
_EPILOG = """examples:
  graph-quant run train.py --epochs 1    run a script written for an NPU
  graph-quant run -m pytest tests        run a test suite written for an NPU
  graph-quant doctor                     check this installation
  graph-quant inspect dump.pbtxt         read a graph that TorchAir dumped

environment:
  GRAPH_QUANT_HOST=auto|on|off           use the host NPU: where CANN is missing (auto), always, never
  GRAPH_QUANT_ENGINE=eager|inductor      how the host runs graphs: starts at once, or compiled and fast
  GRAPH_QUANT_SOC=NAME                   the chip the host NPU answers for (default Ascend910B3)
"""


def parser(command_line: Sequence[str] = ()) -> argparse.ArgumentParser:
    """Return the parser with the command that `command_line` starts with, or with all commands."""
    from .. import __version__

    top = argparse.ArgumentParser(
        "graph-quant",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"graph-quant {__version__}")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name in command_line[:1] if command_line[:1] and command_line[0] in COMMANDS else COMMANDS:
        import_module(f".{name.replace('-', '_')}", __name__).add_parser(commands)
    return top


def main(arguments: list[str] | None = None) -> int:
    """Run one command; return its exit code."""
    command_line = sys.argv[1:] if arguments is None else arguments
    try:
        if command_line[:1] == ["run"] and command_line[1:2] not in (["-h"], ["--help"]):
            from . import run

            return run.execute(command_line[1:])  # the remaining arguments are for Python
        code = _run(command_line)
        sys.stdout.flush()
        return code
    except UsageError as error:
        print(f"graph-quant: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        _close_output()
        return _BROKEN_PIPE
    except KeyboardInterrupt:
        print("graph-quant: interrupted", file=sys.stderr)
        return 130


def _run(command_line: list[str]) -> int:
    """Parse the command line and run the command."""
    if command_line[:1] not in (["verify"], ["plan"], ["compare"]):
        _check_command(command_line)
        options, unknown = parser(command_line).parse_known_args(command_line)
        if unknown:
            kind = "option" if unknown[0].startswith("-") else "argument"
            raise UsageError(f"{command_line[0]} has no {kind} {unknown[0]}{_suggest_option(unknown[0], options)}")
        return int(options.run(options))
    own, arguments = _split_arguments(command_line)
    options, unknown = parser(command_line).parse_known_args(own)
    options.own, for_script = _split_unknown(own, unknown, options)
    options.arguments = [*for_script, *arguments]
    return int(options.run(options))


def _split_unknown(own: list[str], unknown: list[str], options: argparse.Namespace) -> tuple[list[str], list[str]]:
    """Split what the command does not know off its own arguments: what follows the script is for the script.

    An option before the script, or one that is spelt like the command's own, is an error.
    """
    index = own.index(options.script) + 1
    kept, left = own[:index], list(unknown)
    for argument in own[index:]:
        if left and argument == left[0]:
            left.pop(0)
        else:
            kept.append(argument)
    for argument in unknown:
        suggestion = _suggest_option(argument, options) if argument.startswith("-") else ""
        if suggestion or left:
            raise UsageError(
                f"{own[0]} has no option {argument}{suggestion}; put arguments of the script after --: "
                f"graph-quant {own[0]} {options.script} -- {shlex.join(unknown)}"
            )
    return kept, unknown


def _check_command(command_line: list[str]) -> None:
    """Refuse an unknown command, with one of a similar name."""
    name = next(iter(command_line), "-")
    if not name.startswith("-") and name not in COMMANDS:
        close = difflib.get_close_matches(name, COMMANDS, 1)
        hint = f"; did you mean {close[0]}?" if close else f"; the commands are {', '.join(COMMANDS)}"
        raise UsageError(f"there is no command {name}{hint}")


def _suggest_option(unknown: str, options: argparse.Namespace) -> str:
    """Suggest an option with a similar name."""
    spelt = difflib.get_close_matches(unknown, [f"--{name.replace('_', '-')}" for name in vars(options)], 1, 0.8)
    return f" ({spelt[0]}?)" if spelt else ""


def _split_arguments(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Split a command line at ``--`` into arguments of the command and of the script."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    return arguments[:end], arguments[end + 1 :]


def _close_output() -> None:
    """Redirect output to /dev/null, so that the interpreter does not report the broken pipe again at exit."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
