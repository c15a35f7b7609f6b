"""``graph-quant inspect``: a dump that people can read."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from .. import dumps
from ..dumps import DumpError
from .console import SIZE_OPTION, UNREADABLE, open_dump, parse_sizes, print_error, report_errors, write_output

if TYPE_CHECKING:
    from ..dumps import Costs, Dump, History, Timing

FORMATS = ("text", "json", "onnx", "dot", "html", "ge_proto", "ge_onnx", "ge_readable")
_EPILOG = """\
Every line reads   name: Type(inputs; attributes) -> dtype[shape]  ! remarks  # FX node, Python line
Types come from running the host's kernels on fake tensors; "?" marks one that only a desc states.

examples:
  graph-quant inspect dynamo_optimized_graph_1.txt
  graph-quant inspect graph.pbtxt --source graph.py --size s77=4096,s27=7168 --costs
  graph-quant inspect graph.txt --format html -o graph.html
  graph-quant inspect graph.txt --passes on         # after GRAPH_QUANT_PASSES=off: what the passes make of it
  graph-quant inspect graph.txt --format onnx -o graph.onnx     # opens in Netron
  graph-quant inspect dumps/                                    # what each pass changed, and where nodes went

exit code: 0; 2 when a dump cannot be read, has operators that GE does not have, or asks for more than is computed"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "inspect",
        help="print a GE graph dump so that people can read it",
        description="Print a graph dump, of TorchAir (txt, pbtxt, py, air), of GE (ge_proto, ge_onnx, ge_readable) or "
        "of FX (TORCH_COMPILE_DEBUG=1): one line a node, with inferred dtypes and shapes. Of a captured graph "
        "(json, as NPUGraph.debug_dump writes it), print one line a task.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("dump", help="the dump, as TorchAir or GE wrote it; or a folder of them, for what passes did")
    parser.add_argument("--source", metavar="DUMP.py", help="the py dump of the same graph, for Python lines")
    parser.add_argument("--format", choices=FORMATS, default="text", help="default: text")
    parser.add_argument("-o", "--output", metavar="FILE", help="write there instead of printing")
    parser.add_argument(
        SIZE_OPTION, action="append", default=[], metavar="SYMBOL=N,…", help="the sizes of symbols, for costs"
    )
    parser.add_argument("--costs", action="store_true", help="bytes and FLOPs of every node at the end of its line")
    parser.add_argument(
        "--profile", metavar="FILE.csv", help="the profiler's kernel_details or op_summary: times of nodes"
    )
    parser.add_argument(
        "--chip", metavar="NAME", help="the least time of each node by published peaks, of Ascend910B3, say"
    )
    parser.add_argument("--tree", action="store_true", help="the outline: modules, or layers that repeat, once each")
    parser.add_argument("--no-fold", action="store_true", help="a line for every node, also inside idioms")
    parser.add_argument(
        "--passes",
        metavar="on|NAME,…",
        help="send the graph through all passes or those named, and compare nodes before and after",
    )
    parser.set_defaults(run=run)


@report_errors
def run(args: argparse.Namespace) -> int:
    """Do it."""
    if Path(args.dump).is_dir():
        write_output(render_passes(read_histories(Path(args.dump)), args.format), args.output)
        return 0
    if dumps.is_tape(Path(args.dump)):
        write_output(_render_tape(args), args.output)
        return 0
    sizes = parse_sizes(args.size)
    dump = open_dump(args.dump, args.source)
    if args.passes:
        dump, args.compared = _run_passes(dump, args.passes)
    write_output(_render(dump, dumps.Costs(dump, sizes), args), args.output)
    return _exit_code(dump)


def render_passes(histories: list[History], output_format: str) -> str:
    """What the passes of a compiler did, in text or JSON."""
    if output_format not in ("text", "json"):
        raise DumpError(f"--format {output_format}: the passes of a folder have text and json")
    if output_format == "json":
        return json.dumps([history.facts() for history in histories], indent=1) + "\n"
    return "\n\n".join("\n".join(history.lines()) for history in histories) + "\n"


def read_histories(folder: Path) -> list[History]:
    """The series of dumps in a folder, with what happened in each."""
    return [
        dumps.trace_passes(name, [(entry, open_dump(str(entry.path))) for entry in entries])
        for name, entries in dumps.group_pass_dumps(dumps.list_dumps(folder)).items()
    ]


def _run_passes(dump: Dump, names: str) -> tuple[Dump, list[str]]:
    import torch  # noqa: F401  (alone and first: what it activates imports modules that import it)

    try:
        graph_def, steps = dumps.run_passes(dump, names)
    except ValueError as error:
        raise DumpError(f"--passes: {str(error).partition(': ')[2]}") from None
    sources = {name: node.source for name, node in dump.nodes.items()}
    after = dumps.Dump(graph_def, sources, dump.kind)
    return after, list(dumps.pass_summary_lines(dump, after, steps))


def _render(dump: Dump, costs: Costs, args: argparse.Namespace) -> str | bytes:
    if args.format == "json":
        return dumps.to_json(dump, costs)
    if args.format == "html":
        timing = _timing(dump, costs, args)
        return dumps.to_html(dump, costs, Path(args.dump).name, SIZE_OPTION, timing, tuple(_timing_lines(timing, args)))
    if args.format == "onnx":
        _require_onnx()
        return dumps.to_onnx(dump)
    if args.format == "text":
        return "\n".join(_lines(dump, costs, args)) + "\n"
    written: str = getattr(dumps, f"to_{args.format}")(dump)
    return written


def _render_tape(args: argparse.Namespace) -> str:
    tasks = dumps.read_tape(Path(args.dump))
    if args.format == "text":
        return "\n".join(dumps.tape_to_lines(tasks)) + "\n"
    if args.format not in ("json", "dot"):
        raise DumpError(f"--format {args.format}: a captured graph has text, json and dot")
    return dumps.tape_to_json(tasks) if args.format == "json" else dumps.tape_to_dot(tasks)


def _require_onnx() -> None:
    if find_spec("onnx") is None:
        raise DumpError("--format onnx needs the onnx package: pip install onnx")


def _lines(dump: Dump, costs: Costs, args: argparse.Namespace) -> Iterator[str]:
    timing = _timing(dump, costs, args)
    if args.tree:
        yield from dumps.tree_lines(dump, costs)
    else:
        yield from dumps.node_lines(
            dump, costs if args.costs else None, fold=not args.no_fold, note=timing.note if timing else None
        )
    yield ""
    yield from dumps.summary_lines(dump, costs, SIZE_OPTION)
    yield from _timing_lines(timing, args)
    if args.passes:
        yield ""
        yield from args.compared


def _timing(dump: Dump, costs: Costs, args: argparse.Namespace) -> Timing | None:
    """The times that were asked for."""
    if not args.profile and not args.chip:
        return None
    profile = dumps.join_profile(dump, dumps.read_profile(Path(args.profile))) if args.profile else None
    return dumps.Timing(costs, profile, dumps.find_chip(args.chip) if args.chip else None)


def _timing_lines(timing: Timing | None, args: argparse.Namespace) -> Iterator[str]:
    if timing and timing.profile:
        yield from timing.profile.lines()
    if timing and timing.peaks:
        yield f"peaks of {args.chip}: those of {timing.peaks.name}, {dumps.PEAK_SOURCE}"


def _exit_code(dump: Dump) -> int:
    from ..ge import is_known

    for name, reason in dump.inference.too_large.items():
        return print_error(f"{name}: {reason}")
    unknown = sorted(name for name in dump.inference.unknown_types if not is_known(name) and not dump.trusts_descs)
    if not unknown:
        return 0
    print_error(f"GE has no operator of type {', '.join(unknown[:8])}; what follows from it is unknown")
    return UNREADABLE
