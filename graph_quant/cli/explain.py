"""``graph-quant explain``: the rule, the argument and the fix behind an error of a device."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .errors import UsageError

_EPILOG = """\
Codes of aclnn, the runtime and error reports (161002, 561002, EZ1001, 107030, 207008, 507903), texts of checks and
tilings, and names of operators are looked up in the records that the host NPU refuses calls by.

examples:
  graph-quant explain 561002
  graph-quant explain "aclnnWeightQuantBatchMatmulV2 failed, error code is 161002"
  graph-quant explain plog-12345.log
  graph-quant explain - < error.txt

exit code: 0 if something in the text is known, 1 if nothing is, 2 for a usage error"""


def add_parser(commands: argparse._SubParsersAction[Any]) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "explain",
        help="explain an error text or log of a real device",
        description="Explains an error text or log of a real device: the rule, the argument and the fix.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("text", metavar="TEXT|FILE", nargs="+", help="the text, a file, or - for standard input")
    parser.add_argument("--json", action="store_true", help="print the explanations as JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the explanations."""
    from ..explain import explain

    explanations = explain(_read(" ".join(options.text)))
    if options.json:
        print(json.dumps([asdict(explanation) for explanation in explanations], indent=2))
    else:
        print("\n".join(map(str, explanations)) or "nothing in this text is known")
    return 0 if explanations else 1


def _read(text: str) -> str:
    if text == "-":
        return sys.stdin.read()
    try:
        path = Path(text)
        if len(text) < 4096 and path.is_file():
            return path.read_text(errors="replace")
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read {text[:80]}: {error}") from error
    return text
