"""Runs the benchmarks, prints a table for each and writes all figures as JSON.

python benchmarks/run.py                 all of them
python benchmarks/run.py host lowering   some of them
"""

import argparse
import json
import platform
from importlib import import_module
from pathlib import Path
from typing import Any

import graph_quant  # noqa: F401  (before torch: it makes torch_npu loadable)
import torch
from rich.console import Console
from rich.table import Table

FOLDER = Path(__file__).parent
BENCHMARKS = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "run")


def main() -> int:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "names", nargs="*", metavar="name", help=f"which to run: {', '.join(BENCHMARKS)} (default: all)"
    )
    parser.add_argument("--json", type=Path, default=Path("out/benchmarks.json"), help="where the figures go")
    options = parser.parse_args()
    if unknown := set(options.names) - set(BENCHMARKS):
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}")
    console = Console()
    machine = {"machine": platform.machine(), "cores": torch.get_num_threads(), "torch": torch.__version__}
    figures: dict[str, Any] = {"machine": machine}
    for name in options.names or BENCHMARKS:
        figures[name] = import_module(name).measure()
        show(console, name, figures[name])
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(figures, indent=2, ensure_ascii=False) + "\n")
    console.print(f"all figures: {options.json}")
    return 0


def show(console: Console, title: str, figures: dict[str, Any]) -> None:
    """Print figures as tables: a row for each entry, a table of its own for entries that have rows themselves."""
    rows = {name: row for name, row in figures.items() if not _is_nested(row)}
    if rows:
        headings = list(dict.fromkeys(heading for row in rows.values() for heading in row))
        table = Table(title=title)
        table.add_column("", no_wrap=True)
        for heading in headings:
            table.add_column(heading, justify="right")
        for name, row in rows.items():
            table.add_row(name, *(str(row.get(heading, "")) for heading in headings))
        console.print(table)
    for name, row in figures.items():
        if _is_nested(row):
            show(console, f"{title}: {name}", row)


def _is_nested(row: Any) -> bool:
    return any(isinstance(value, dict) for value in row.values())


if __name__ == "__main__":
    raise SystemExit(main())
