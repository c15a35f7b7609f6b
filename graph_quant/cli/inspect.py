"""``graph-quant inspect``: print a dump in readable form."""

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
The format of a line is   name: Type(inputs; attributes) -> dtype[shape]  ! remarks  # FX node, Python line
Types are inferred by running the host's kernels on fake tensors; "?" marks a type that only a desc states.

examples:
  graph-quant inspect dynamo_optimized_graph_1.txt
  graph-quant inspect graph.pbtxt --source graph.py --size s77=4096,s27=7168 --costs
  graph-quant inspect graph.txt --format html -o graph.html --title "Llama, W8A8"
  graph-quant inspect graph.txt --passes on         # the graph after the passes, and what they changed
  graph-quant inspect graph.txt --format onnx -o graph.onnx     # opens in Netron
  graph-quant inspect dumps/                                    # what each pass changed, and what became of nodes

exit code: 0; 2 if a dump cannot be read, has operators unknown to GE, or tensors beyond the limits"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "inspect",
        help="print a GE graph dump in readable form",
        description="Print a graph dump of TorchAir (txt, pbtxt, py, air), GE (ge_proto, ge_onnx, ge_readable) or FX "
        "(TORCH_COMPILE_DEBUG=1): one line per node, with inferred dtypes and shapes. For a captured graph (json, as "
        "NPUGraph.debug_dump writes it), print one line per task.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("dump", help="the dump; or a folder of dumps, to show what each pass changed")
    parser.add_argument("--source", metavar="DUMP.py", help="the py dump of the same graph, for Python lines")
    parser.add_argument("--format", choices=FORMATS, default="text", help="default: text")
    parser.add_argument("-o", "--output", metavar="FILE", help="write to FILE instead of printing")
    parser.add_argument("--title", metavar="TEXT", help="the title of the HTML page; default: the model, or the file")
    parser.add_argument(
        SIZE_OPTION, action="append", default=[], metavar="SYMBOL=N,…", help="the sizes of symbols, for costs"
    )
    parser.add_argument("--costs", action="store_true", help="append bytes and FLOPs to the line of every node")
    parser.add_argument(
        "--profile", metavar="FILE.csv", help="show measured times from the profiler's kernel_details or op_summary"
    )
    parser.add_argument(
        "--chip",
        metavar="NAME",
        help="show the least time of each node by the published peaks of a chip, e.g. Ascend910B3",
    )
    parser.add_argument("--tree", action="store_true", help="show the outline: modules, or repeating layers, once each")
    parser.add_argument(
        "--no-fold", action="store_true", help="one line for every node, also inside patterns such as packing int4"
    )
    parser.add_argument(
        "--passes",
        metavar="on|NAME,…",
        help="run all passes, or those named, and compare the nodes before and after",
    )
    parser.set_defaults(run=run)


@report_errors
def run(args: argparse.Namespace) -> int:
    """Run the command."""
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
    """Format pass histories as text or JSON."""
    if output_format not in ("text", "json"):
        raise DumpError(f"--format {output_format}: for a folder of passes the format must be text or json")
    if output_format == "json":
        return json.dumps([history.facts() for history in histories], indent=1) + "\n"
    return "\n\n".join("\n".join(history.lines()) for history in histories) + "\n"


def read_histories(folder: Path) -> list[History]:
    """Trace every series of dumps in a folder."""
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
        timing, title = _timing(dump, costs, args), args.title or dumps.page_title(dump, Path(args.dump))
        return dumps.to_html(dump, costs, title, SIZE_OPTION, timing, tuple(_timing_lines(timing, args)))
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
        raise DumpError(f"--format {args.format}: for a captured graph the format must be text, json or dot")
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
    """The times that the options request."""
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
