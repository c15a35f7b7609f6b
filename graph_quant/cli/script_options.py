"""Options of the commands that run a user's script."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from typing import Any

from .errors import UsageError


def add_parser(
    subparsers: argparse._SubParsersAction[argparse.ArgumentParser], name: str, verb: str, script: str, **described: Any
) -> argparse.ArgumentParser:
    """Declare a command that takes a script; ``verb`` is what it does with a model of the script."""
    parser = subparsers.add_parser(
        name,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage=f"graph-quant {name} [option ...] script.py [option ...] [[--] argument of the script ...]",
        allow_abbrev=False,
        **described,
    )
    parser.add_argument("script", help=script)
    parser.add_argument("--model", metavar="NAME", help=f"{name} this module or function of the script")
    parser.add_argument("--inputs", metavar="NAME", help="its inputs; default: inputs")
    parser.add_argument(
        "--dynamic", action=argparse.BooleanOptionalAction, help=f"{verb} `model` with dynamic or static shapes"
    )
    return parser


def non_negative_int(text: str) -> int:
    """Parse a non-negative integer."""
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"must not be negative, got {text}")
    return value


def rank_command(name: str, options: argparse.Namespace, *kept: str) -> list[str]:
    """The same command for one rank or chip, without the options ``kept`` by the parent."""
    here = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for option in kept:
        here.add_argument(option, action="append")
    _, rest = here.parse_known_args(options.own[1:])
    return [sys.executable, "-m", "graph_quant", name, *rest, "--", *options.arguments]


def load_torchair() -> None:
    """Import torch_npu and TorchAir; raise `UsageError` if that fails."""
    load_torch_npu("torchair")


def load_torch_npu(*others: str) -> None:
    """Import torch_npu and other packages; raise `UsageError` if that fails."""
    try:
        for name in ("torch_npu", *others):
            import_module(name)
    except (ImportError, RuntimeError, OSError) as error:
        names = "torch_npu and TorchAir do" if others else "torch_npu does"
        raise UsageError(f"{names} not load here; `graph-quant doctor` says how to fix it") from error
