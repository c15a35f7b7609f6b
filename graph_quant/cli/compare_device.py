"""``graph-quant compare-device``: find the first wrong call in what a device dumped."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .console import open_dump, report_errors
from .errors import UsageError
from .rank_reports import write_file

if TYPE_CHECKING:
    from ..dumps import ProgramDump

_EPILOG = """\
DEVICE is what msprobe wrote on a machine with an NPU:
  eager     step0/rank0/dump.json and its tensors. Each call of a function is computed on the host from the device's
            inputs: no model, no weights and no second dump are needed.
  TorchAir  the folder of msprobe's set_ge_dump_config: the GE graph, and the tensors that GE dumped. Each node is
            computed on the host, as by `graph-quant verify GRAPH --data DEVICE`.
  captured  tensors or statistics of AclGraphDumper, which do not state numbers and lists: name HOST too.

HOST is what msprobe wrote when the same script ran here, with `graph-quant run`. Calls are paired by name, step and
rank; one is wrong where its results differ and its inputs do not. Statistics suffice for that.

examples:
  graph-quant compare-device dump/                          # every step and rank
  graph-quant compare-device dump/step0/rank3 --json wrong.json
  graph-quant compare-device dump/ host_dump/               # with the dump of the same script on the host

exit code: 0 if all that can be compared is right, 1 if something is wrong, 2 if nothing can be compared"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "compare-device",
        help="find the first wrong call in what a device dumped",
        description="Find the first call or node that a device computed wrong, from the tensors that msprobe dumped.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("device", metavar="DEVICE", help="a folder that msprobe dumped on a device")
    parser.add_argument("host", metavar="HOST", nargs="?", help="a folder that it dumped here, with graph-quant run")
    parser.add_argument("--json", metavar="FILE", help="write the report as JSON")
    parser.set_defaults(run=run)


@report_errors
def run(options: argparse.Namespace) -> int:
    """Run the command."""
    import torch_npu  # noqa: F401  (calls run on the host's npu)

    from ..dumps import read_program_dumps

    device = read_program_dumps(Path(options.device))
    if device:
        reports, text = _check_programs(device, options)
    else:
        reports, text = _check_graphs(Path(options.device), options)
    for report in reports:
        for line in report.lines():
            print(line)
    if options.json:
        write_file(options.json, text)
        print(f"wrote {options.json}")
    if not any(report.compared for report in reports):
        raise UsageError(f"{options.device}: nothing in this folder could be compared")
    return 1 if any(report.wrong for report in reports) else 0


def _check_programs(device: list[ProgramDump], options: argparse.Namespace) -> tuple[list[Any], str]:
    from ..dumps import check_calls, compare_calls, read_program_dumps, reports_to_json

    if options.host is None:
        reports = [check_calls(dump) for dump in device]
    else:
        host = {(dump.step, dump.rank): dump for dump in read_program_dumps(Path(options.host))}
        pairs = [(dump, host.get((dump.step, dump.rank))) for dump in device]
        if len(device) == len(host) == 1:
            pairs = [(device[0], next(iter(host.values())))]
        reports = [compare_calls(dump, other) for dump, other in pairs if other is not None]
        missing = [dump.label for dump, other in pairs if other is None]
        if missing:
            print(f"missing in {options.host}: {'; '.join(missing)}")
    return reports, reports_to_json(reports)


def _check_graphs(folder: Path, options: argparse.Namespace) -> tuple[list[Any], str]:
    """Check GE graphs with the tensors that GE dumped beside them."""
    from ..dumps import DeviceData, DumpError, check_device_data, find_ge_dumps

    if options.host is not None:
        raise UsageError("compare-device: HOST is for programs; graphs are computed from the device's own inputs")
    dumps = find_ge_dumps(folder)
    if not dumps:
        raise DumpError(f"{folder}: there is neither a dump of msprobe nor a GE graph with tensors in this folder")
    reports = [check_device_data(open_dump(str(graph)), DeviceData(data)) for graph, data in dumps]
    return reports, json.dumps([json.loads(report.to_json()) for report in reports], indent=1) + "\n"
