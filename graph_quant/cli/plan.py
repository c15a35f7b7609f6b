"""``graph-quant plan``: a dry run of a script."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from typing import Any

from .. import chip
from . import script_options
from .errors import UsageError

_EPILOG = """\
The script runs unchanged, but what it compiles for the NPU (torch.compile with a backend of TorchAir) is only
lowered: a call returns zeros of the right shapes. A script that compiles nothing may define `model` (a module or a
function) and `inputs`, which are then used. Arguments of the script follow it, or --.

For each graph the report lists the GE nodes, operators without a converter or without a kernel on the host, matrix
products in floating point, parts that are not quantised between two quantised operators, and the cost.

Captured graphs hold streams, of which a device has about 1,984: --capture-sizes N says how many the script needs if
each of its graphs is captured for N batch sizes.

With --chip, the rules are those of that chip, and the script sees its name. With several chips the script runs once for
each, and the last line says on which of them everything lowers.

With --ranks N, N ranks of the script run on this machine, as with `graph-quant run --ranks N`; each prints its report.

examples:
  graph-quant plan serve.py
  graph-quant plan serve.py --chip Ascend910B3
  graph-quant plan serve.py --fuse
  graph-quant plan serve.py --chip A2 --chip A3 --chip 950
  graph-quant plan serve.py --json -- --layers 2
  graph-quant plan model.py --model decoder --inputs prompt
  graph-quant plan serve.py --ranks 2
  graph-quant plan serve.py --capture-sizes 24

exit code: 0 if everything lowers without a graph break, 1 if something breaks, is refused or has no converter, or
captured graphs need more streams than a device has, 2 for a usage error"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = script_options.add_parser(
        subparsers,
        "plan",
        "lower",
        "a Python script",
        help="dry run: lower a script's graphs for the NPU without executing them",
        description="Dry run: lower a script's graphs without executing them, and report GE nodes, graph breaks,\n"
        "refused calls and costs.",
        epilog=_EPILOG,
    )
    parser.add_argument(
        "--chip",
        metavar="NAME",
        action="append",
        default=[],
        help="check against a chip: A2, A3, 950 or 310P; may be repeated. A device name such as Ascend910B3 adds the "
        "least time by its published peaks",
    )
    parser.add_argument(
        "--fuse",
        nargs="?",
        const="on",
        metavar="NAMES",
        help="fuse subgraphs (all, or some names separated by commas), and say what was fused, what was not and why",
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument(
        "--ranks", type=script_options.non_negative_int, default=0, metavar="N", help="start N ranks of the script"
    )
    parser.add_argument(
        "--capture-sizes",
        type=script_options.non_negative_int,
        default=0,
        metavar="N",
        help="say how many streams the graphs hold if each is captured for N batch sizes",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    if len(options.chip) > 1:
        return _dry_run_chips(options)
    name = options.chip[0] if options.chip else None
    if name is None:
        return _dry_run(options, None)
    peaks = _published_peaks(name)
    try:
        described = chip.find_chip(name)
    except ValueError as error:
        if peaks is None:
            raise UsageError(str(error)) from None
        return _dry_run(options, peaks)
    loaded: Any = sys.modules.get("torch_npu")
    if loaded is None or not loaded.npu.is_initialized():
        # The host device reports this name to the script, and to the ranks.
        os.environ["GRAPH_QUANT_SOC"] = name if name.startswith("Ascend") else described.device
    with chip.use(described):
        return _dry_run(options, peaks)


def _published_peaks(name: str) -> str | None:
    """Return the name of a chip if peaks are published for it."""
    from ..dumps import DumpError, find_chip

    try:
        find_chip(name)
    except DumpError:
        return None
    return name


def _dry_run_chips(options: argparse.Namespace) -> int:
    """Run the command once for each chip, in processes of their own; print where everything lowers."""
    if options.json:
        raise UsageError("--json takes one --chip: each chip has a report of its own")
    outcomes: dict[str, int] = {}
    for name in dict.fromkeys(options.chip):
        print(f"--chip {name}", flush=True)
        command = script_options.rank_command("plan", options, "--chip")
        split = command.index("--")
        outcomes[name] = subprocess.run([*command[:split], "--chip", name, *command[split:]], check=False).returncode
        if outcomes[name] == 2:
            return 2
        print(flush=True)
    print("; ".join(f"{name}: {'lowers' if not code else 'does not lower'}" for name, code in outcomes.items()))
    return max(outcomes.values())


def _dry_run(options: argparse.Namespace, peaks: str | None) -> int:
    """Run the command for the chip in use."""
    if options.ranks:
        return _dry_run_ranks(options)
    script_options.load_torchair()
    from .. import fusions
    from ..dryrun import count_streams, dry_run_script

    fusing = contextlib.nullcontext() if options.fuse is None else fusions.use(options.fuse)
    try:
        printing = _stdout_to_stderr() if options.json else contextlib.nullcontext()
        with warnings.catch_warnings(), printing, fusing:
            dry_run = dry_run_script(
                options.script, options.arguments, model=options.model, inputs=options.inputs, dynamic=options.dynamic
            )
    except (FileNotFoundError, ValueError) as error:
        raise UsageError(str(error)) from error
    streams = count_streams(dry_run, options.capture_sizes)
    if options.json:
        report = dry_run.as_json(peaks)
        if options.capture_sizes:
            report["streams"] = {"needed": streams.needed, "most": streams.most}
        print(json.dumps(report, indent=2))
    else:
        print("\n".join(dry_run.lines(peaks)))
        if options.capture_sizes:
            print(streams.line)
    if dry_run.is_empty:
        return 2
    return 0 if dry_run.ok and streams.needed <= streams.most else 1


@contextlib.contextmanager
def _stdout_to_stderr() -> Iterator[None]:
    """Redirect standard output to standard error, also that of child processes."""
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
    """Start the ranks; each prints its report with its rank before every line."""
    if options.json:
        raise UsageError("--json and --ranks cannot be combined: each rank prints a report of its own")
    from . import ranks, run

    return ranks.run_ranks(
        script_options.rank_command("plan", options, "--ranks"), run.npu_environment(), options.ranks, good=(0, 1)
    )
