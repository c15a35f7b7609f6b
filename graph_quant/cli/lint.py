"""``graph-quant lint``: check dumps against rules."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..dumps import DumpError
from ..ge import printable
from .console import open_dump, report_errors, write_output

if TYPE_CHECKING:
    from ..dumps import Finding, Severity

_LEVELS = ("error", "warning", "note")
_EPILOG = """\
In a folder all dumps are checked, at any depth; of a graph that TorchAir dumped before and after optimising it, only
the optimised one.

error    GE or the device rejects it, or may compute a different result
warning  works, but the caller can improve it
note     nodes that TorchAir adds and GE removes: counted, and shown with --level note

examples:
  graph-quant lint dynamo_optimized_graph_1.txt
  graph-quant lint dumps/ --fail-on warning
  graph-quant lint graph.txt --ignore static-shape --ignore float-desc:GroupQuant
  graph-quant lint --rules                 # what is checked, and why

exit code: 0; 1 if there is an error (or what --fail-on says); 2 if a dump cannot be read"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "lint",
        help="check GE graph dumps against rules",
        description="Check GE graph dumps: dtypes that GE rejects, redundant nodes, specialised sizes, and more.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("dumps", nargs="*", metavar="DUMP", help="dumps (txt, pbtxt or py), or folders of them")
    parser.add_argument(
        "--ignore", action="append", default=[], metavar="RULE[:NODE]", help="a rule to skip; may be repeated"
    )
    parser.add_argument(
        "--level", choices=_LEVELS, default="warning", help="the lowest severity to show; default: warning"
    )
    parser.add_argument(
        "--fail-on", choices=(*_LEVELS, "never"), default="error", help="the lowest severity that fails; default: error"
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="default: text")
    parser.add_argument("-o", "--output", metavar="FILE", help="write to FILE instead of printing")
    parser.add_argument("--rules", action="store_true", help="list the rules and exit")
    parser.set_defaults(run=run)


@report_errors
def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from ..dumps import Severity, find_dumps, lint, lint_rules

    if args.rules:
        written = "{0.id} ({0.severity})\n  why: {0.why}\n  fix: {0.fix}\n"
        write_output("".join(map(written.format, lint_rules().values())), args.output)
        return 0
    if not args.dumps:
        raise DumpError("lint: name a dump, or use --rules")
    ignore = [entry for option in args.ignore for entry in option.split(",") if entry]
    findings = {path: lint(open_dump(str(path)), ignore) for path in find_dumps(args.dumps)}
    least = Severity[args.level.upper()]
    if args.format == "json":
        content = json.dumps(
            [_facts(path, finding) for path, of_dump in findings.items() for finding in of_dump], indent=1
        )
    else:
        content = "\n".join(_lines(findings, least))
    write_output(content + "\n", args.output)
    worst = max((finding.rule.severity for of_dump in findings.values() for finding in of_dump), default=0)
    return int(args.fail_on != "never" and worst >= Severity[args.fail_on.upper()])


def _facts(path: Path, finding: Finding) -> dict[str, str]:
    return {
        "dump": str(path),
        "severity": str(finding.rule.severity),
        "rule": finding.rule.id,
        "node": finding.node,
        **({"graph": finding.graph} if finding.graph else {}),
        "message": finding.message,
        "why": finding.rule.why,
        "way_out": finding.rule.fix,
    }


def _lines(findings: dict[Path, list[Finding]], least: Severity) -> Iterator[str]:
    shown = [
        (path, finding) for path, of_dump in findings.items() for finding in of_dump if finding.rule.severity >= least
    ]
    for path, finding in shown:
        prefix = f"{printable(str(path), 200)}: " if len(findings) > 1 else ""
        message = f"{printable(finding.location, 160)}: {printable(finding.message, 300)}"
        yield f"{prefix}{finding.rule.severity}: {message} [{finding.rule.id}]"
    for rule in {finding.rule.id: finding.rule for _, finding in shown}.values():
        yield f"\n{rule.id}: {rule.why}\n  fix: {rule.fix}"
    if shown:
        yield ""
    yield _summary([finding for of_dump in findings.values() for finding in of_dump], least, len(findings))


def _summary(findings: Sequence[Finding], least: Severity, dumps: int) -> str:
    """``2 errors, 1 warning in 3 dumps; 35 notes (--level note shows them)``."""
    counts = {level: sum(str(finding.rule.severity) == level for finding in findings) for level in _LEVELS}
    texts = {level: f"{count} {level}{'' if count == 1 else 's'}" for level, count in counts.items() if count}
    split = _LEVELS.index(str(least)) + 1
    shown, hidden = ([texts[level] for level in part if level in texts] for part in (_LEVELS[:split], _LEVELS[split:]))
    where = f" in {dumps} dumps" if dumps > 1 else ""
    quiet = f"; {', '.join(hidden)} (--level note shows them)" if hidden else ""
    return (", ".join(shown) or "no findings") + where + quiet
