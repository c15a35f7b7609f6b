"""``graph-quant operators``: list the operators that run here."""

import argparse
import json
from typing import Any

from ..chip import find_chip
from .console import spinner
from .errors import UsageError


def add_parser(commands: "argparse._SubParsersAction[Any]") -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "operators",
        help="list the operators: which run eagerly here, which in graphs, and which have their calls checked",
        description="Lists the operators of torch.ops.npu that TorchAir or graph_quant lowers, or that run eagerly "
        "here, and the operators of other packages and of compiled extensions that are not installed, as they are "
        "registered. GE nodes without a kernel on the host are named.",
    )
    parser.add_argument("name", nargs="?", default="", help="only operators whose name contains this")
    parser.add_argument(
        "--chip", metavar="NAME", help="list what is described for a chip: A2, A3, 950 or 310P; default: the host's"
    )
    parser.add_argument("--json", action="store_true", help="print them as JSON")
    parser.add_argument(
        "--aten", action="store_true", help="list PyTorch's core ATen overloads instead: how each becomes GE nodes"
    )
    parser.add_argument(
        "--page", action="store_true", help="print what works here as Markdown: operators, graph modes, collectives"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command; the exit code is 1 if no operator matches."""
    try:
        on = None if options.chip is None else find_chip(options.chip)
    except ValueError as error:
        raise UsageError(str(error)) from None
    with spinner("loading torch_npu"):
        import torch_npu  # noqa: F401
    if options.page:
        from ..operator_support_page import page

        print("\n".join(page()))
        return 0
    if options.aten:
        return _list_aten(options)
    from ..operator_support import supported_operators

    chosen = [operator for operator in supported_operators(on) if options.name in operator.name]
    if options.json:
        rows = [{**vars(operator), "graph": operator.graph} for operator in chosen]
        print(json.dumps(rows, indent=2))
        return 0 if chosen else 1
    print(f"{'operator':52} {'eager':6} {'graph':6} {'rules':6} {'defined by':26} lowered by")
    for operator in chosen:
        marks = ("yes" if mark else "-" for mark in (operator.eager, operator.graph, operator.rules))
        lacks = f"  (no kernel: {', '.join(operator.missing)})" if operator.missing else ""
        if operator.releases:
            lacks = f"absent in the installed torch_npu; it is in {', '.join(operator.releases)}"
        name = operator.name.removeprefix("npu::")
        row = f"{name:52} " + "".join(f"{mark:7}" for mark in marks) + f"{operator.defined_by:27}"
        print((row + operator.lowered_by + lacks).rstrip())
    absent = sum(bool(operator.releases) for operator in chosen)
    print(
        f"{len(chosen)} operators: {sum(operator.eager for operator in chosen)} eager, "
        f"{sum(operator.graph for operator in chosen)} in graphs, "
        f"{sum(not operator.eager and not operator.graph for operator in chosen)} neither"
        + (f" (of which {absent} are not in the installed torch_npu)" if absent else "")
    )
    return 0 if chosen else 1


def _list_aten(options: argparse.Namespace) -> int:
    """List the overloads of core ATen; return 1 if none matches."""
    from ..aten import core, lowering

    chosen = [entry for entry in map(lowering, core()) if options.name in entry.overload]
    if options.json:
        print(json.dumps([vars(entry) for entry in chosen], indent=2))
        return 0 if chosen else 1
    print(f"{'overload':52} {'how':14} {'by':12} GE nodes")
    for entry in chosen:
        print(f"{entry.overload:52} {entry.how or 'not lowered':14} {entry.by:12} {', '.join(entry.nodes)}".rstrip())
    print(f"{len(chosen)} overloads: {sum(entry.is_lowered for entry in chosen)} lowered")
    return 0 if chosen else 1
