"""``graph-quant doctor``: check this installation."""

import argparse
import json
from typing import Any

from .console import spinner


def add_parser(commands: "argparse._SubParsersAction[Any]") -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "doctor",
        help="check what works on this machine and how to fix what does not",
        description="Checks torch, torch_npu, CANN or the host NPU, the device, the registered operators, and "
        "each graph mode. Exit code 0 only if NPU code runs here.",
    )
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    with spinner("checking this installation"):
        from ..doctor import examine

        report = examine()
    if options.json:
        print(json.dumps(report.as_dict(), indent=2))
        return 0 if report.usable else 1
    print(f"python      {report.python} on {report.machine}")
    for package, installed in report.versions.items():
        print(f"{package:11} {installed or 'not installed'}")
    print(
        f"enabled     {'yes: plain python can import torch_npu' if report.enabled else 'no: run `graph-quant enable`'}"
    )
    if report.runtime:
        print(f"runtime     {report.runtime_reason}")
    if report.device:
        gib = report.device["total"] / 2**30
        print(
            f"device      npu:0, {report.device['name']}, {gib:.1f} GiB, {report.device['free'] / 2**30:.1f} GiB free"
        )
    if report.registered:
        print("registered  " + ", ".join(f"{count} {part}" for part, count in report.registered.items()))
    if report.chip:
        print("chip        {name}: {described} operators described, {refused} refused by name".format_map(report.chip))
    for mode, outcome in report.modes.items():
        print(f"graphs      {mode:15} {outcome}")
    for feature, state in report.features.items():
        print(f"feature     {feature:15} {state}")
    for plugin, reason in report.plugins.items():
        print(f"plug-in     {plugin}: off here: {reason}")
    for warning in report.warnings:
        print(f"warning     {warning}")
    for problem in report.problems:
        print(f"\nproblem     {problem.what}\nfix         {problem.fix}")
    print("\nusable" if report.usable else "\nnot usable")
    return 0 if report.usable else 1
