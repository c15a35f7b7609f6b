"""``graph-quant diff``: compare two dumps."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..dumps import DumpError
from .console import open_dump, report_errors, write_output

_EPILOG = """\
Nodes are matched by what they compute and how they are connected before their names, so renumbered names are not
a difference. The two dumps may have different formats.

examples:
  graph-quant diff before.txt after.txt
  graph-quant diff original.pbtxt optimized.txt --format html -o diff.html
  graph-quant diff dumps/                    # each pass against the one before

exit code: 0 if the graphs are equal, 1 if they differ, 2 if a dump cannot be read"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "diff",
        help="compare two GE graph dumps",
        description="Compare two GE graph dumps: nodes added, removed, changed (attributes, dtypes, shapes, wiring).",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("before", help="the first dump, or a folder of dumps of several passes")
    parser.add_argument("after", nargs="?", help="the second dump; omitted for a folder")
    parser.add_argument("--format", choices=("text", "json", "html"), default="text", help="default: text")
    parser.add_argument("--title", metavar="TEXT", help="the title of the HTML page; default: both models or files")
    parser.add_argument("-o", "--output", metavar="FILE", help="write to FILE instead of printing")
    parser.set_defaults(run=run)


@report_errors
def run(args: argparse.Namespace) -> int:
    """Run the command."""
    if args.after is None:
        return _compare_passes(args)
    difference = open_dump(args.before).diff(open_dump(args.after))
    if args.format == "json":
        content = difference.to_json()
    elif args.format == "html":
        from ..dumps import diff_page, page_title

        before, after = page_title(difference.old, Path(args.before)), page_title(difference.new, Path(args.after))
        if before == after:
            before, after = args.before, args.after
        content = diff_page(difference, before, after, args.title)
    else:
        content = "\n".join(difference.lines()) + "\n"
    write_output(content, args.output)
    return int(bool(difference))


def _compare_passes(args: argparse.Namespace) -> int:
    """Compare each dump of a folder with the one before it."""
    if not Path(args.before).is_dir():
        raise DumpError("diff: name a second dump, or a folder")
    from .inspect import read_histories, render_passes

    histories = read_histories(Path(args.before))
    write_output(render_passes(histories, args.format), args.output)
    return int(any(step.phrases() for history in histories for step in history.steps))
