"""graph-quant plan: what a script would become on an NPU, lowered and not run."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import warnings
from collections.abc import Iterator

from . import script_options
from .errors import UsageError

_EPILOG = """\
The script runs as it stands, but what it compiles for the NPU (torch.compile with a backend of TorchAir) is only
lowered: a call of it is answered with zeros of the right shapes, at once. A script that compiles nothing may define
`model` (a module or a function) and `inputs`: then that is planned. What the script itself should get stands after --.

Told of each graph: the GE nodes, what has no converter, what has no kernel on the host, what multiplies in floating
point, what stays unquantised between two quantised operators, and what it costs.

With --ranks N, N ranks of the script run on this machine, as under `graph-quant run --ranks N`; each has its page.

examples:
  graph-quant plan serve.py
  graph-quant plan serve.py --chip Ascend910B3
  graph-quant plan serve.py --json -- --layers 2
  graph-quant plan model.py --model decoder --inputs prompt
  graph-quant plan serve.py --ranks 2

exit code: 0 when all is one lowered graph or several, 1 when something breaks, is refused or has no converter,
2 for a mistake"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = script_options.add_parser(
        subparsers,
        "plan",
        "lower",
        "a Python script",
        help="say what a script would become on an NPU, without running its graphs",
        description="Lower a script's graphs without running them, and say what becomes GE nodes, what breaks the\n"
        "graph and where, what is refused and why, and what it costs.",
        epilog=_EPILOG,
    )
    parser.add_argument("--chip", metavar="NAME", help="also the least time there by published peaks: Ascend910B3, say")
    parser.add_argument("--json", action="store_true", help="print it as JSON")
    parser.add_argument(
        "--ranks", type=script_options.non_negative_int, default=0, metavar="N", help="plan N ranks of the script"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Lower, then say what was found."""
    from ..dumps import DumpError, find_chip

    if options.chip is not None:
        try:
            find_chip(options.chip)
        except DumpError as error:
            raise UsageError(str(error)) from None
    if options.ranks:
        return _dry_run_ranks(options)
    script_options.load_torchair()
    from ..dryrun import dry_run_script

    try:
        printing = _stdout_to_stderr() if options.json else contextlib.nullcontext()
        with warnings.catch_warnings(), printing:
            dry_run = dry_run_script(
                options.script, options.arguments, model=options.model, inputs=options.inputs, dynamic=options.dynamic
            )
    except (FileNotFoundError, ValueError) as error:
        raise UsageError(str(error)) from error
    if options.json:
        print(json.dumps(dry_run.as_json(options.chip), indent=2))
    else:
        print("\n".join(dry_run.lines(options.chip)))
    if dry_run.is_empty:
        return 2
    return 0 if dry_run.ok else 1


@contextlib.contextmanager
def _stdout_to_stderr() -> Iterator[None]:
    """What a script prints goes to the standard error; also by other ways than Python's, as its processes have."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def _dry_run_ranks(options: argparse.Namespace) -> int:
    """Each rank prints its own page, with its number before every line."""
    if options.json:
        raise UsageError("--json is of one script, and with --ranks there are several pages")
    from . import ranks, run

    return ranks.run_ranks(
        script_options.rank_command("plan", options, "--ranks"), run.npu_environment(), options.ranks, good=(0, 1)
    )
