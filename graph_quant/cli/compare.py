"""``graph-quant compare``: what quantisation costs, by layer."""

from __future__ import annotations

import argparse
import runpy
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from . import script_options
from .console import spinner, write_output
from .errors import UsageError

_EPILOG = """\
The script defines `float_model`, `quantised` (the same model after quantize_ or load_quantised) and `samples`, a list
of inputs: tensors, tuples of arguments or dicts of keyword arguments. Arguments of the script follow it, or --.

own dB        the quantised layer with the float model's inputs
inherited dB  the float layer with the quantised model's inputs
total dB      both: its result in the quantised model
saturated     the share of activations beyond a stored range

Layers that lose most by themselves come first. In code, keep_float(20) of the result is a filter for quantize_.

examples:
  graph-quant compare accuracy.py
  graph-quant compare accuracy.py --min-sqnr 25 --html layers.html
  graph-quant compare accuracy.py --json -- --layers 4

exit code: 0, 1 if the whole model's SQNR is below --min-sqnr, 2 for a usage error or a script that stops"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "compare",
        help="compare a quantised model with its float model, layer by layer",
        description="Compare a quantised model with its float model: SQNR, cosine, largest error, saturation and\n"
        "ranges of each layer, its own error and the inherited one.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="graph-quant compare [option ...] script.py [option ...] [[--] argument of the script ...]",
        allow_abbrev=False,
    )
    parser.add_argument("script", help="a Python script")
    parser.add_argument("--float-model", default="float_model", metavar="NAME", help="default: float_model")
    parser.add_argument("--quantised", default="quantised", metavar="NAME", help="default: quantised")
    parser.add_argument("--samples", default="samples", metavar="NAME", help="default: samples")
    parser.add_argument("--min-sqnr", type=float, metavar="DB", help="fail if the whole model's SQNR is lower")
    parser.add_argument(
        "--most", type=script_options.non_negative_int, default=0, metavar="N", help="show the N worst layers"
    )
    parser.add_argument("--json", metavar="FILE", help="write the comparison as JSON")
    parser.add_argument("--html", metavar="FILE", help="write the comparison as an HTML page")
    parser.add_argument("--traceback", action="store_true", help="show the traceback of a script that stops")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    script_options.load_torchair()
    from ..nn import compare

    names = _run_script(options)
    samples = list(names[options.samples])
    try:
        with spinner("comparing layers") as retitle:
            counted = _counted(samples, retitle)
            comparison = compare(names[options.float_model], names[options.quantised], counted)
    except ValueError as error:
        raise UsageError(f"{options.script}: {error}") from error
    write_output("\n".join(comparison.lines(options.most)) + "\n", None)
    for path, content in ((options.json, comparison.to_json), (options.html, comparison.to_html)):
        if path:
            write_output(content(), path)
            print(f"wrote {path}")
    if options.min_sqnr is not None and not comparison.output.sqnr >= options.min_sqnr:
        print(f"below --min-sqnr {options.min_sqnr:g}: {comparison.output.sqnr:.1f} dB", file=sys.stderr)
        return 1
    return 0


def _counted(samples: list[Any], retitle: Callable[[str], None]) -> Iterator[Any]:
    for number, sample in enumerate(samples, 1):
        retitle(f"comparing layers: sample {number} of {len(samples)}")
        yield sample


def _run_script(options: argparse.Namespace) -> dict[str, Any]:
    path = Path(options.script)
    if not path.is_file():
        raise UsageError(f"{path}: there is no such script")
    before = sys.argv, sys.path[:]
    sys.argv, sys.path = [str(path), *options.arguments], [str(path.absolute().parent), *sys.path]
    try:
        names = runpy.run_path(str(path), run_name="__main__")
    except Exception as error:
        if options.traceback:
            traceback.print_exception(error)
        raise UsageError(f"{path} stopped: {type(error).__name__}: {error}") from error
    finally:
        sys.argv, sys.path = before
    for name in (options.float_model, options.quantised, options.samples):
        if name not in names:
            raise UsageError(f"{path} defines no {name}, which compare needs")
    return names
