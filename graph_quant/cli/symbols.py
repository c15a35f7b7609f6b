"""``graph-quant symbols``: the functions of CANN that torch_npu uses, and which of them the host NPU has."""

import argparse
import json
from dataclasses import asdict
from typing import Any

from .errors import UsageError


def add_parser(commands: "argparse._SubParsersAction[Any]") -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "symbols",
        help="list the functions of CANN that torch_npu needs and the host NPU lacks",
        description="Reads from the installed torch_npu which functions of CANN it links against, and which of them "
        "the host NPU lacks; then, for every name that torch_npu looks up at run time, what it does here "
        "(--json lists the names). Exit code 1 if a name is missing or unknown.",
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
            (symbols.implemented, "are implemented"),
            (symbols.refused, "need an NPU and raise an error that names them"),
            (symbols.optional, "belong to operators and tools of CANN that torch_npu does not need"),
            (symbols.not_symbols, "only look like functions of CANN"),
            (symbols.unknown, "are missing"),
        ):
            print(f"  {len(count):3} {what}")
        for name in symbols.unknown:
            print(f"      {name}")
    return 1 if symbols.missing or symbols.unknown else 0
