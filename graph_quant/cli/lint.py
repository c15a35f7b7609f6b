"""``graph-quant lint``: check dumps against rules."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..chip import find_chip
from ..dumps import DumpError
from ..ge import GeError, printable
from .console import UNREADABLE, open_dump, print_error, report_errors, write_output

if TYPE_CHECKING:
    from ..chip import Chip
    from ..dumps import Baseline, CheckedDump, Finding, GateLimits, Severity

_LEVELS = ("error", "warning", "note")
FORMATS = ("text", "json", "github", "sarif", "junit")
_EPILOG = """\
In a folder all dumps are checked, at any depth; of a graph that TorchAir dumped before and after optimising it, only
the optimised one.

error    GE or the device rejects it, or may compute a different result
warning  works, but the caller can improve it
note     nodes that TorchAir adds and GE removes: counted, and shown with --level note

examples:
  graph-quant lint dynamo_optimized_graph_1.txt
  graph-quant lint dumps/ --fail-on warning
  graph-quant lint dumps/ --max-nodes 800 --min-quantised 95% --forbid TransData
  graph-quant lint dumps/ --write-baseline lint.json        # once, and commit the file
  graph-quant lint dumps/ --baseline lint.json              # in CI: fails on what is new, or on a graph that grew
  graph-quant lint dumps/ --format github                   # or sarif -o lint.sarif, junit -o lint.xml
  graph-quant lint graph.txt --ignore static-shape --ignore float-desc:GroupQuant
  graph-quant lint graph.txt --chip A2 --chip A3 --chip 950
  graph-quant lint --rules                 # what is checked, and why

A baseline stands for the findings of earlier dumps, by rule, node type, module and message: renumbered nodes are not
new. With it, a graph with more nodes, or with a lesser quantised share, is an error.

exit code: 0; 1 if there is a new error (or what --fail-on says); 2 if a dump cannot be read: the others are checked"""


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
        "--chip",
        action="append",
        default=[],
        metavar="NAME",
        help="also check against a chip: A2, A3, 950 or 310P; may be repeated",
    )
    parser.add_argument(
        "--level", choices=_LEVELS, default="warning", help="the lowest severity to show; default: warning"
    )
    parser.add_argument(
        "--fail-on", choices=(*_LEVELS, "never"), default="error", help="the lowest severity that fails; default: error"
    )
    parser.add_argument("--baseline", metavar="FILE", help="fail only on findings that are not in this baseline")
    parser.add_argument("--write-baseline", metavar="FILE", help="write the findings and sizes as a baseline; exit 0")
    parser.add_argument("--max-nodes", type=int, metavar="N", help="an error if a graph has more nodes")
    parser.add_argument(
        "--min-quantised",
        type=_parse_share,
        metavar="P%",
        help="an error if a smaller share of the computing nodes is quantised, e.g. 95%%",
    )
    parser.add_argument(
        "--forbid", action="append", default=[], metavar="TYPE", help="an error for each node of this type, or pattern"
    )
    parser.add_argument("--format", choices=FORMATS, default="text", help="default: text; github: workflow commands")
    parser.add_argument("-o", "--output", metavar="FILE", help="write to FILE instead of printing")
    parser.add_argument("--rules", action="store_true", help="list the rules and exit")
    parser.set_defaults(run=run)


def _parse_share(text: str) -> float:
    """Parse a share such as ``95%`` or ``0.95``."""
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = -1
    if not 0 <= share <= 1:
        raise argparse.ArgumentTypeError(f"must be a percentage such as 95%, got {text}")
    return share


@report_errors
def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from ..dumps import Baseline, GateLimits, Severity, check_rule_names, find_dumps, lint_rules, name_dumps

    if args.rules:
        written = "{0.id} ({0.severity})\n  why: {0.why}\n  fix: {0.fix}\n"
        write_output("".join(map(written.format, lint_rules().values())), args.output)
        return 0
    if not args.dumps:
        raise DumpError("lint: name a dump, or use --rules")
    check_rule_names(ignore := [entry for option in args.ignore for entry in option.split(",") if entry])
    for name in args.chip:
        _find_chip(name)
    limits = GateLimits(
        args.max_nodes, args.min_quantised, tuple(name for option in args.forbid for name in option.split(",") if name)
    )
    baseline = Baseline.read(args.baseline) if args.baseline else Baseline() if args.write_baseline else None
    names = name_dumps(find_dumps(args.dumps), args.dumps)
    if args.baseline and baseline is not None and not set(names.values()) & set(baseline.sizes):
        raise DumpError(f"{args.baseline}: it has none of these dumps, but {', '.join(sorted(baseline.sizes)[:4])}")
    checked = [_check(path, name, ignore, limits, baseline, args) for path, name in names.items()]
    if args.write_baseline and baseline is not None:
        write_output(baseline.write(), args.write_baseline)
    missing = sorted(set(baseline.sizes) - set(names.values())) if args.baseline and baseline is not None else []
    unreadable = [result for result in checked if not result.is_readable]
    for result in unreadable:
        print_error(f"{result.path}: {result.findings[0].message}")
    if args.format != "text" or len(unreadable) < len(checked):
        write_output(_render(checked, missing, args), args.output)
    if unreadable:
        return UNREADABLE
    if args.write_baseline or args.fail_on == "never":
        return 0
    worst = max((finding.rule.severity for result in checked for finding in result.new), default=0)
    return int(worst >= Severity[args.fail_on.upper()])


def _check(
    path: Path,
    name: str,
    ignore: Sequence[str],
    limits: GateLimits,
    baseline: Baseline | None,
    args: argparse.Namespace,
) -> CheckedDump:
    """Check one file; one that cannot be read is a finding."""
    from ..dumps import CheckedDump, check_dump, lint_rules, measure_size

    try:
        dump = open_dump(str(path))
        known = baseline if args.baseline else None
        result = check_dump(
            dump,
            path,
            name=name,
            ignore=ignore,
            limits=limits,
            baseline=known,
            chips=[_find_chip(chip) for chip in args.chip],
        )
        if args.write_baseline and baseline is not None:
            rules = [finding for finding in result.findings if finding.rule.id in lint_rules()]
            baseline.add(name, dump, result.size or measure_size(dump), rules)
    except GeError as error:
        return CheckedDump.unreadable(path, name, str(error))
    return result


def _render(checked: list[CheckedDump], missing: Sequence[str], args: argparse.Namespace) -> str:
    from .. import __version__
    from ..dumps import Severity, to_annotations, to_junit, to_lint_json, to_sarif

    least = Severity[args.level.upper()]
    if args.format == "json":
        return to_lint_json(checked)
    if args.format == "sarif":
        return to_sarif(checked, __version__, least)
    if args.format == "junit":
        return to_junit(checked, None if args.fail_on == "never" else Severity[args.fail_on.upper()])
    if args.format == "github":
        return to_annotations(checked, least)
    return (
        "\n".join(
            [
                *_lines(checked, least),
                *(f"not checked: {name}, which the baseline has" for name in missing),
                *_chip_lines(checked, args.chip),
            ]
        )
        + "\n"
    )


def _find_chip(name: str) -> Chip:
    try:
        return find_chip(name)
    except ValueError as error:
        raise DumpError(f"lint: {error}") from None


def _chip_lines(checked: Sequence[CheckedDump], names: Sequence[str]) -> Iterator[str]:
    """``runs on Ascend A2 and Ascend A3; on Ascend 950: 2 nodes lacking there or not described``."""
    nodes_by_chip = {
        name: {
            (result.path, finding.location)
            for result in checked
            for finding in result.findings
            if finding.message.startswith(f"on {name}: ")
        }
        for name in (_find_chip(name).name for name in names)
    }
    fine = [name for name, nodes in nodes_by_chip.items() if not nodes]
    parts = [f"runs on {' and '.join(filter(None, (', '.join(fine[:-1]), fine[-1])))}"] if fine else []
    for name, nodes in nodes_by_chip.items():
        if nodes:
            count = f"{len(nodes)} node{'' if len(nodes) == 1 else 's'}"
            parts.append(f"on {name}: {count} lacking there or not described")
    if parts:
        yield "; ".join(parts)


def _lines(checked: list[CheckedDump], least: Severity) -> Iterator[str]:
    checked = [result for result in checked if result.is_readable]
    shown = [(result, finding) for result in checked for finding in result.new if finding.rule.severity >= least]
    for result, finding in shown:
        where = [printable(str(result.path), 200)] if len(checked) > 1 or not finding.node else []
        where += [str(finding.rule.severity), *([printable(finding.location, 160)] if finding.node else [])]
        yield f"{': '.join(where)}: {printable(finding.message, 300)} [{finding.rule.id}]"
    for rule in {finding.rule.id: finding.rule for _, finding in shown}.values():
        yield f"\n{rule.id}: {rule.why}\n  fix: {rule.fix}"
    if shown:
        yield ""
    summary = _summary([finding for result in checked for finding in result.new], least, len(checked))
    known = sum(len(result.findings) - len(result.new) for result in checked)
    yield summary + (f"; {known} in the baseline" if known else "")


def _summary(findings: Sequence[Finding], least: Severity, dumps: int) -> str:
    """``2 errors, 1 warning in 3 dumps; 35 notes (--level note shows them)``."""
    counts = {level: sum(str(finding.rule.severity) == level for finding in findings) for level in _LEVELS}
    texts = {level: f"{count} {level}{'' if count == 1 else 's'}" for level, count in counts.items() if count}
    split = _LEVELS.index(str(least)) + 1
    shown, hidden = ([texts[level] for level in part if level in texts] for part in (_LEVELS[:split], _LEVELS[split:]))
    where = f" in {dumps} dumps" if dumps > 1 else ""
    quiet = f"; {', '.join(hidden)} (--level note shows them)" if hidden else ""
    return (", ".join(shown) or "no findings") + where + quiet
