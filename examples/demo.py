"""A demo in under a minute: lower each operator, run it on this machine, check the bits, look at the graphs.

python examples/demo.py [--out FOLDER]
"""

import argparse
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import graph_quant  # noqa: F401  (before torch: it makes torch_npu loadable)
import torch
import torch_npu
import torchair
from graph_quant import dumps
from graph_quant.upstream import upstream
from rich.console import Console
from rich.table import Table
from torchair.configs.compiler_config import CompilerConfig

INT4 = torch.quint4x2
X = torch.randn(6, 32, dtype=torch.float16)
ROWS = torch.tensor([2, 6], dtype=torch.int32)
INT8 = torch.randint(-128, 127, (32, 32), dtype=torch.int8)
SCALE = torch.rand(32) + 0.5


@dataclass(frozen=True)
class Lowering:
    """One operator with one destination."""

    name: str
    call: Callable[..., Any]
    inputs: tuple[torch.Tensor, ...]


def group_quant(x: Any, scale: Any, rows: Any, dst: Any) -> Any:
    return torch_npu.npu_group_quant(x, scale, rows, dst_dtype=dst)


def quantize(x: Any, scale: Any, dst: Any) -> Any:
    return torch_npu.npu_quantize(x, scale, None, dst, -1, False)


LOWERINGS = (
    Lowering("group_quant int8", lambda x, s, g: group_quant(x, s, g, torch.int8), (X, SCALE.repeat(2, 1), ROWS)),
    Lowering("group_quant int4", lambda x, s, g: group_quant(x, s, g, INT4), (X, SCALE.repeat(2, 1), ROWS)),
    Lowering("quantize int8", lambda x, s: quantize(x, s, torch.qint8), (X, SCALE.half())),
    Lowering("quantize int4", lambda x, s: quantize(x, s, INT4), (X, SCALE.half())),
    Lowering("dynamic_quant int8", lambda x: torch_npu.npu_dynamic_quant(x), (X,)),
    Lowering("dynamic_quant int4", lambda x: torch_npu.npu_dynamic_quant(x, dst_type=INT4), (X,)),
    Lowering("dynamic_quant_asymmetric int8", lambda x: torch_npu.npu_dynamic_quant_asymmetric(x), (X,)),
    Lowering("dynamic_quant_asymmetric int4", lambda x: torch_npu.npu_dynamic_quant_asymmetric(x, dst_type=INT4), (X,)),
    Lowering("trans_quant_param", lambda s: torch_npu.npu_trans_quant_param(s), (SCALE,)),
    Lowering("quant_matmul int8", lambda a, b, s: torch_npu.npu_quant_matmul(a, b, s), (INT8, INT8, SCALE)),
    Lowering(
        "quant_matmul bfloat16",
        lambda a, b, s: torch_npu.npu_quant_matmul(a, b, s, output_dtype=torch.bfloat16),
        (INT8, INT8, SCALE),
    ),
)


def main() -> int:
    """Run the demo."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--out", type=Path, default=Path("out/demo"), help="where dumps and pages go (default: out/demo)"
    )
    out: Path = parser.parse_args().out
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    started = time.perf_counter()
    console = Console(highlight=False)

    show_device(console)
    equal = show_lowerings(console, out)
    show_dumps(console, out)
    console.print(f"\nin [bold]{out}[/]:")
    for path in sorted(out.iterdir()):
        console.print(f"  {path.name}")
    console.print(f"\n{'every result equals the reference to the bit' if equal else '[red]RESULTS DIFFER[/]'}", end="")
    console.print(f" ({time.perf_counter() - started:.0f} s)")
    return 0 if equal else 1


def show_device(console: Console) -> None:
    """Show the device and a computation on it."""
    device = torch.npu.get_device_name(0)
    console.print(f"[bold]torch {torch.__version__}, torch_npu {torch_npu.__version__}, device npu:0 ({device})[/]")
    console.print("  >>> x = torch.randn(2, 3).half().npu(); x @ x.t()")
    x = torch.randn(2, 3).half().npu()
    console.print("  " + str(x @ x.t()).replace("\n", "\n  ") + "\n")


def show_lowerings(console: Console, out: Path) -> bool:
    """Lower and run each operator; return whether all results are right."""
    table = Table(title="GE nodes of each operator, and its result on this machine")
    table.add_column("operator", no_wrap=True)
    for heading in ("static", "dynamic", "upstream static", "upstream dynamic", "bits"):
        table.add_column(heading, justify="right")
    all_equal = True
    for lowering in LOWERINGS:
        expected = flatten(lowering.call(*lowering.inputs))  # on CPU tensors: the reference alone
        counts, results = [], []
        for dynamic in (False, True):
            nodes, result = lower(lowering, dynamic, out, f"{lowering.name.replace(' ', '-')}-{kind(dynamic)}")
            counts.append(str(nodes))
            results.append(result)
        with upstream():
            counts += [
                str(lower(lowering, dynamic, out / "upstream", lowering.name.replace(" ", "-"))[0])
                for dynamic in (False, True)
            ]
        wanted, actual = expected * 2, results[0] + results[1]
        equal = len(actual) == len(wanted) and all(map(torch.equal, wanted, actual))
        all_equal = all_equal and equal
        table.add_row(lowering.name, *counts, "equal" if equal else "[red]differ[/]")
    console.print(table)
    return all_equal


def lower(lowering: Lowering, dynamic: bool, out: Path, stem: str) -> tuple[int | str, list[torch.Tensor]]:
    """Compile and run on the npu backend; return the number of nodes and the results, and keep the dump."""
    folder = out / "raw"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    config = CompilerConfig()
    config.debug.graph_dump.type = "pbtxt"
    config.debug.graph_dump.path = str(folder)
    torch._dynamo.reset()
    backend = torchair.get_npu_backend(compiler_config=config)
    compiled = torch.compile(lowering.call, backend=backend, fullgraph=True, dynamic=dynamic)
    results: list[torch.Tensor] = []
    try:
        results = [result.cpu() for result in flatten(compiled(*(value.npu() for value in lowering.inputs)))]
    except Exception:
        if not list(folder.glob("dynamo_optimized_graph_*")):
            return "fails", []
    (dump,) = folder.glob("dynamo_optimized_graph_*")
    kept = out / f"{stem}.pbtxt"
    dump.rename(kept)
    shutil.rmtree(folder)
    return sum(node.type not in ("Data", "NetOutput") for node in dumps.load(kept).order), results


def kind(dynamic: bool) -> str:
    """Return the name of a compilation mode."""
    return "dynamic" if dynamic else "static"


def flatten(results: Any) -> list[torch.Tensor]:
    """Return an operator's results as a list."""
    return [results] if isinstance(results, torch.Tensor) else list(results)


def show_dumps(console: Console, out: Path) -> None:
    """Show one of the dumps with the commands of graph-quant."""
    from graph_quant.cli import main as command

    ours = str(out / "group_quant-int4-dynamic.pbtxt")
    theirs = str(out / "upstream" / "group_quant-int4.pbtxt")
    for arguments in (["inspect", ours], ["lint", theirs], ["diff", theirs, ours]):
        console.print(f"\n[bold]$ graph-quant {' '.join(arguments)}[/]")
        command(arguments)
    command(["inspect", ours, "--format", "html", "-o", str(out / "group_quant-int4-dynamic.html")])


if __name__ == "__main__":
    raise SystemExit(main())
