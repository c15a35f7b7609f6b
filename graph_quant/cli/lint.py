"""``graph-quant lint``: rules that a build can fail on."""

from __future__ import annotations

import argparse
import json

from ..dumps.errors import DumpError
from ..ge.errors import printable
from .console import guarded, open_dump, write

_EPILOG = """\
examples:
  graph-quant lint dynamo_optimized_graph_1.txt
  graph-quant lint graph.txt --ignore unreachable --ignore float-desc:GroupQuant
  graph-quant lint --rules                 # what is checked, and why

exit code: 0 when no rule fires, 1 when one does, 2 when the dump cannot be read"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "lint",
        help="check a GE graph dump against rules",
        description="Check a GE graph dump: dtypes that GE refuses, wasted nodes, sizes baked in, and more.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("dump", nargs="?", help="the dump: txt, pbtxt or py")
    parser.add_argument(
        "--ignore", action="append", default=[], metavar="RULE[:NODE]", help="a rule to leave out; again for more"
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="default: text")
    parser.add_argument("-o", "--output", metavar="FILE", help="write there instead of printing")
    parser.add_argument("--rules", action="store_true", help="list the rules and stop")
    parser.set_defaults(run=run)


@guarded
def run(args: argparse.Namespace) -> int:
    """Do it."""
    from ..dumps.analyse.lint import lint, rules

    if args.rules:
        write(
            "".join(f"{rule.id}\n  why: {rule.why}\n  way out: {rule.way_out}\n" for rule in rules().values()),
            args.output,
        )
        return 0
    if args.dump is None:
        raise DumpError("lint: name a dump, or ask for --rules")
    ignore = [entry for given in args.ignore for entry in given.split(",") if entry]
    found = lint(open_dump(args.dump), ignore)
    if args.format == "json":
        facts = [
            {"rule": f.rule.id, "node": f.node, "message": f.message, "why": f.rule.why, "way_out": f.rule.way_out}
            for f in found
        ]
        write(json.dumps(facts, indent=1) + "\n", args.output)
        return bool(found)
    lines = [f"{printable(f.node, 120)}: {printable(f.message, 300)} [{f.rule.id}]" for f in found]
    for rule in {f.rule.id: f.rule for f in found}.values():
        lines.append(f"\n{rule.id}: {rule.why}\n  way out: {rule.way_out}")
    lines.append(f"\n{len(found)} finding{'s' if len(found) != 1 else ''}" if found else "no findings")
    write("\n".join(lines) + "\n", args.output)
    return bool(found)
