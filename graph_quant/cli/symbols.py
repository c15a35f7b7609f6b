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
        "the host NPU does not have; then, for every name that torch_npu looks up later, what it does here "
        "(--json has the names). Exit code 1 if one is missing or unknown.",
    )
    parser.add_argument("--json", action="store_true", help="print the whole lists as JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the lists."""
    from ..host.elf import needs

    try:
        symbols = needs()
    except (ModuleNotFoundError, OSError) as error:
        raise UsageError(f"cannot read the libraries: {error}") from error
    if options.json:
        print(json.dumps(asdict(symbols), indent=2))
    else:
        print(f"{len(symbols.linked)} functions are needed to load torch_npu; missing: {len(symbols.missing)}")
        for name in symbols.missing:
            print(f"  {name}")
        print(f"{len(symbols.looked_up)} more names are looked up at run time:")
        for count, what in (
            (symbols.served, "do here what they say"),
            (symbols.refused, "need an NPU, and say so by name when they are called"),
            (symbols.elsewhere, "belong to CANN's operators and tools, which torch_npu can do without"),
            (symbols.words, "are called like functions of CANN and are none"),
            (symbols.unknown, "are not there"),
        ):
            print(f"  {len(count):3} {what}")
        for name in symbols.unknown:
            print(f"      {name}")
    return 1 if symbols.missing or symbols.unknown else 0
