"""``graph-quant replay``: run a dump on this machine."""

from __future__ import annotations

import argparse
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from .console import SIZE_OPTION, open_dump, parse_sizes, report_errors, spinner

if TYPE_CHECKING:
    from torch import Tensor

_MOST_GIBIBYTES = 1 << 20  # more than any machine has
_LIBRARY_BYTES = 1 << 30  # address space of the threads that torch starts, and of modules that are imported late

_EPILOG = """\
Inputs are named after the Data nodes of the dump. Missing ones are generated from the seed: floats, positive
scales, a group_index that ends at the row count, and a size for every symbol.

examples:
  graph-quant replay graph.txt
  graph-quant replay graph.txt --inputs in.safetensors --size s77=128 --trace -o out.safetensors

exit code: 0; 2 if the dump or the inputs cannot be read, or the graph cannot be run"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "replay",
        help="run a GE graph dump on this machine",
        description="Run a GE graph dump on the host, bit for bit like the compiled call it came from.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("dump", help="the dump: txt, pbtxt or py")
    parser.add_argument("--inputs", metavar="FILE", help="a safetensors file with some or all of the inputs")
    parser.add_argument("--seed", type=_seed, default=0, metavar="N", help="the seed of generated inputs; default: 0")
    parser.add_argument(SIZE_OPTION, action="append", default=[], metavar="SYMBOL=N,…", help="the sizes of symbols")
    parser.add_argument("-o", "--output", metavar="FILE", help="a safetensors file for the results")
    parser.add_argument(
        "--memory",
        type=_gibibytes,
        default=2.0,
        metavar="GIB",
        help="the limit for results and generated inputs; default: 2",
    )
    parser.add_argument("--engine", choices=("eager", "inductor"), default="eager", help="default: eager")
    parser.add_argument("--trace", action="store_true", help="store every intermediate result too (runs eagerly)")
    parser.set_defaults(run=run)


def _seed(text: str) -> int:
    """Parse a seed."""
    value = int(text)
    if not -(1 << 63) <= value < 1 << 64:
        raise argparse.ArgumentTypeError(f"must fit in 64 bits, got {text}")
    return value


def _gibibytes(text: str) -> float:
    value = float(text)
    if not 0 < value < _MOST_GIBIBYTES:
        raise argparse.ArgumentTypeError(f"must be more than 0 and less than {_MOST_GIBIBYTES}, got {text}")
    return value


@contextmanager
def _limit_memory(more_bytes: int) -> Iterator[None]:
    """Limit the growth of the process: data-dependent sizes are not known beforehand."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    wanted = pages * resource.getpagesize() + more_bytes
    resource.setrlimit(resource.RLIMIT_AS, (wanted if soft == resource.RLIM_INFINITY else min(wanted, soft), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@report_errors
def run(args: argparse.Namespace) -> int:
    """Run the command."""
    sizes = parse_sizes(args.size)
    dump = open_dump(args.dump, compiles=args.engine == "inductor")
    from ..dumps import read_tensors, replay, write_tensors

    inputs = read_tensors(args.inputs) if args.inputs else {}
    with spinner("running the graph"):
        most = int(args.memory * (1 << 30))
        options = {"sizes": sizes, "engine": args.engine, "trace": args.trace, "most_bytes": most}
        # Inputs, results and intermediate results.
        with _limit_memory(4 * most + _LIBRARY_BYTES):
            results = replay(dump, inputs, seed=args.seed, **options)
    if args.output is not None:
        write_tensors(results, args.output)
    outputs = sorted(name for name in results if name.startswith("output"))
    for name in outputs:
        print(f"{name}: {_summarise(results[name])}")
    if args.trace:
        print(f"{len(results) - len(outputs)} intermediate results")
    return 0


def _summarise(result: Tensor) -> str:
    """``float16[4, 8] from -1.5 to 2.25, mean 0.03; 2 nan``."""
    text = f"{str(result.dtype).removeprefix('torch.')}{list(result.shape)}"
    if result.is_complex() or not result.numel():
        return text
    values = result.double().reshape(-1)
    finite = values[values.isfinite()]
    if finite.numel():
        text += f" from {finite.min():g} to {finite.max():g}, mean {finite.mean():g}"
    masks = {"nan": values.isnan(), "inf": values.isinf()}
    counts = [f"{int(mask.sum())} {kind}" for kind, mask in masks.items() if mask.any()]
    return text + (f"; {', '.join(counts)}" if counts else "")
