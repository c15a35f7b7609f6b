"""The graph-quant command."""

import argparse
import sys
from importlib import import_module

from .errors import UsageError

# In the order of --help: what makes a machine ready, then what looks at graphs.
COMMANDS = ("run", "enable", "disable", "doctor", "symbols", "inspect", "diff", "lint", "replay", "verify")

_DESCRIPTION = (
    "Quantised graph mode for Ascend NPUs, on any machine: run NPU scripts without an NPU, and read GE graph dumps."
)
_EPILOG = """examples:
  graph-quant run train.py --epochs 1    run a script written for an NPU
  graph-quant run -m pytest tests        run a test suite written for an NPU
  graph-quant doctor                     say what works here and what does not
  graph-quant inspect dump.pbtxt         read a graph that TorchAir dumped

environment:
  GRAPH_QUANT_HOST=auto|on|off           use the host NPU: where CANN is missing (auto), always, never
  GRAPH_QUANT_ENGINE=eager|inductor      how the host runs graphs: starts at once, or compiled and fast
  GRAPH_QUANT_SOC=NAME                   the chip the host NPU answers for (default Ascend910B3)
"""


def parser() -> argparse.ArgumentParser:
    """Return the command line's parser, with every command that the package has."""
    from .. import __version__

    top = argparse.ArgumentParser(
        "graph-quant",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"graph-quant {__version__}")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name in COMMANDS:
        import_module(f".{name}", __name__).add_parser(commands)
    return top


def main(arguments: list[str] | None = None) -> int:
    """Run one command; return its exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        if given[:1] == ["run"] and given[1:2] not in (["-h"], ["--help"]):
            from . import run

            return run.execute(given[1:])  # what follows belongs to the script, not to this parser
        options = parser().parse_args(given)
        return int(options.run(options))
    except UsageError as error:
        print(f"graph-quant: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        sys.stderr.close()  # the reader has gone; there is nobody to tell
        return 141
    except KeyboardInterrupt:
        print("graph-quant: interrupted", file=sys.stderr)
        return 130
