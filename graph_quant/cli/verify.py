"""``graph-quant verify``: compare graphs with eager execution and find the first diverging node."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from pathlib import Path

from . import script_options
from .errors import UsageError
from .rank_reports import REPORTS_VARIABLE, write_file

_EPILOG = """\
The script runs unchanged. What it compiles for the NPU (torch.compile with a backend of TorchAir) is also run eagerly,
and the results are compared; each node of the graphs is compared with the same operator on the CPU. Graphs that
npugraph_ex captures are compared as a whole and pass by pass: the pass that changes a result is named. A script that
compiles nothing may define `model` (a module or a function) and `inputs` (a tuple, list, dict, one tensor, or a
function that returns one of them), which are then run eagerly and as a graph.

With --data the first argument is a graph dump of TorchAir or GE, and DIR contains the tensors that the device dumped
(GE's data dump, or the npy and bin files that msprobe or msaccucmp convert it to). Every node is computed on the host
from the device's inputs; the first node whose device result differs is named.

With --ranks N, N ranks of the script run on this machine, as with `graph-quant run --ranks N`; each verifies what it
compiles, and the reports are joined.

Options may precede or follow the script. What the command does not know, and all after `--`, is for the script.

marks:  ✓ equal bits   ≈ within the thresholds   ✗ wrong   ↳ right for its wrong inputs   ? not comparable

examples:
  graph-quant verify script.py
  graph-quant verify script.py --html report.html --json report.json -- --batch 4
  graph-quant verify script.py --min-sqnr 40
  graph-quant verify script.py --model decoder --inputs prompt
  graph-quant verify script.py --ranks 2 --html report.html
  graph-quant verify ge_proto_00042_Build.txt --data dump/20240101/

exit code: 0 if all results are within the thresholds, 1 if one is not, 2 for a usage error or a script that stops"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = script_options.add_parser(
        subparsers,
        "verify",
        "compile",
        "a Python script; with --data, a graph dump",
        help="compare a script's graphs with eager execution, node by node",
        description="Run a script's GE graphs and compare every node with eager execution: equal bits or not, errors,\n"
        "SQNR, and the first diverging node with its Python line.",
        epilog=_EPILOG,
    )
    parser.add_argument("--max-error", "--atol", type=_non_negative, metavar="E", help="accept absolute errors up to E")
    parser.add_argument("--min-sqnr", type=float, metavar="DB", help="accept an SQNR of DB decibel or more")
    parser.add_argument(
        "--calls",
        type=script_options.non_negative_int,
        default=1,
        metavar="N",
        help="number of calls of each graph whose nodes are compared; 0: all; default: 1",
    )
    parser.add_argument(
        "--data",
        metavar="DIR",
        help="verify a dump, instead of a script, against the tensors that a device dumped to DIR",
    )
    parser.add_argument(
        "--ranks",
        type=script_options.non_negative_int,
        default=0,
        metavar="N",
        help="run N ranks of the script, and verify each",
    )
    parser.add_argument("--all", action="store_true", help="show every node, even of a long graph")
    parser.add_argument("--json", metavar="FILE", help="write the report as JSON")
    parser.add_argument("--html", metavar="FILE", help="write the report as an HTML page with plots")
    parser.add_argument("--traceback", action="store_true", help="show the traceback of a script that stops")
    parser.set_defaults(run=run)


def _non_negative(text: str) -> float:
    value = float(text)
    if not value >= 0:
        raise argparse.ArgumentTypeError(f"must not be negative, got {text}")
    return value


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    for path in filter(None, (options.json, options.html)):
        if not Path(path).resolve().parent.is_dir():
            raise UsageError(f"{path}: there is no such folder")
    if options.data:
        return _verify_device_data(options)
    if options.ranks:
        from .rank_reports import verify_ranks

        return verify_ranks(options)
    from ..ge import printable

    script_options.load_torchair()
    from ..verification import VerificationError, on_terminal, verify_script

    try:
        report = verify_script(
            options.script,
            options.arguments,
            model=options.model,
            inputs=options.inputs,
            dynamic=options.dynamic,
            calls=options.calls or None,
            max_error=options.max_error,
            min_sqnr=options.min_sqnr,
            progress=on_terminal,
        )
    except VerificationError as error:
        _show_traceback(options, error.__cause__)
        raise UsageError(printable(str(error), limit=600)) from error
    report.show(all_nodes=options.all, for_all="--all")
    for path, render in ((options.json, report.to_json), (options.html, report.to_html)):
        if path:
            write_file(path, render())
            print(f"wrote {path}")
    if REPORTS_VARIABLE in os.environ:
        own = Path(os.environ[REPORTS_VARIABLE]) / os.environ["RANK"]
        write_file(f"{own}.json", report.to_json())
        write_file(f"{own}.html", report.to_html())
    if report.stopped is not None:
        _show_traceback(options, report.stopped.__cause__)
        raise UsageError(printable(str(report.stopped), limit=600))
    if report.ok and not report.compared:
        raise UsageError(f"{options.script}: {report.verdict()}")
    return 0 if report.ok else 1


def _verify_device_data(options: argparse.Namespace) -> int:
    """Verify the tensors of a device offline, without an NPU or CANN."""
    from ..ge import GeError, printable
    from .console import open_dump

    try:
        dump = open_dump(options.script)
        from ..dumps import DeviceData, check_device_data

        report = check_device_data(dump, DeviceData(Path(options.data)))
    except GeError as error:
        raise UsageError(printable(str(error), limit=600)) from error
    for line in report.lines():
        print(printable(line, 600))
    if options.json:
        write_file(options.json, report.to_json())
    if not report.compared:
        raise UsageError(f"{options.data}: no node of the graph could be compared with what is in this folder")
    return 1 if report.wrong else 0


def _show_traceback(options: argparse.Namespace, error: BaseException | None) -> None:
    if options.traceback and error is not None:
        sys.stdout.flush()
        traceback.print_exception(error)
