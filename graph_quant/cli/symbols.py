"""graph-quant symbols: what torch_npu asks of CANN, and what the host NPU has of it."""

import argparse
import json
from dataclasses import asdict
from typing import Any

from .errors import UsageError


def add_parser(commands: "argparse._SubParsersAction[Any]") -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "symbols",
        help="list what torch_npu needs of CANN and what the host NPU lacks",
        description="Computes from the installed torch_npu which CANN functions it needs to load, and which of them "
        "the host NPU does not have. Exit code 1 if one is missing: then torch_npu cannot load here.",
    )
    parser.add_argument("--json", action="store_true", help="print the whole lists as JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the lists."""
    from ..host.symbols import needs

    try:
        found = needs()
    except (ModuleNotFoundError, OSError) as error:
        raise UsageError(f"cannot read the libraries: {error}") from error
    if options.json:
        print(json.dumps(asdict(found), indent=2))
    else:
        absent = [name for name in found.looked_up if name not in found.offered]
        print(f"{len(found.linked)} functions are needed to load torch_npu; missing: {len(found.missing)}")
        for name in found.missing:
            print(f"  {name}")
        print(f"{len(found.looked_up)} more names may be looked up at run time; offered: {len(found.offered)}")
        print(f"{len(absent)} are not offered: torch_npu refuses the features behind them by name")
    return 1 if found.missing else 0
