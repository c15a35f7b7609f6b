"""``graph-quant diff``: what changed between two dumps."""

from __future__ import annotations

import argparse

from .console import guarded, open_dump, write

_EPILOG = """\
Nodes are matched by what they compute and where they stand, and only then by name, so that renumbered names are
no difference. The two dumps may be of different formats.

examples:
  graph-quant diff before.txt after.txt
  graph-quant diff original.pbtxt optimized.txt --format html -o diff.html

exit code: 0 when the graphs are equal, 1 when they differ, 2 when a dump cannot be read"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "diff",
        help="compare two GE graph dumps",
        description="Compare two GE graph dumps: nodes added, removed, changed (attributes, dtypes, shapes, wiring).",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("before", help="the first dump: txt, pbtxt or py")
    parser.add_argument("after", help="the second dump")
    parser.add_argument("--format", choices=("text", "json", "html"), default="text", help="default: text")
    parser.add_argument("-o", "--output", metavar="FILE", help="write there instead of printing")
    parser.set_defaults(run=run)


@guarded
def run(args: argparse.Namespace) -> int:
    """Do it."""
    difference = open_dump(args.before).diff(open_dump(args.after))
    if args.format == "json":
        content = difference.to_json()
    elif args.format == "html":
        from ..dumps.render.to_html import diff_page

        content = diff_page(difference)
    else:
        content = "\n".join(difference.lines()) + "\n"
    write(content, args.output)
    return int(bool(difference))
