"""Lists the operators that each recipe names, and those not supported: `python -m compat.recipes.operators CHECKOUT`.

The source text is searched, including branches for other chips, so a recipe that names an unsupported operator may
still run.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from textwrap import wrap

_CALLED = re.compile(
    r"\b(?:torch_npu|torch\.ops\.(?P<space>npu|custom))\.(?P<name>(?:_?npu_|scatter_update)\w*|\w+)\s*\("
)
_WIDTH = 200  # of a cell; what is longer goes on in the next row
_OWN = re.compile(r"_?npu_\w+|scatter_update_?")


def named(folder: Path) -> set[str]:
    """Return the operators that files below ``folder`` call; those of other namespaces are prefixed with it."""
    names = set()
    for path in sorted(folder.rglob("*.py")):
        for call in _CALLED.finditer(path.read_text(encoding="utf-8", errors="replace")):
            name, space = call["name"], call["space"]
            if space == "custom":
                names.add(f"custom::{name}")
            elif space or _OWN.fullmatch(name):
                names.add(name)
    return names


def to_markdown(recipes: Mapping[str, Iterable[str]], supported: set[str]) -> str:
    """Return a table with a row for each recipe that names operators."""
    lines = ["| recipe | operators | not supported |", "|---|---|---|"]
    for recipe, names in recipes.items():
        if all_of_it := sorted(names):
            missing = wrap(", ".join(f"`{name}`" for name in all_of_it if name not in supported), _WIDTH) or [""]
            lines.append(f"| {recipe} | {len(all_of_it)} | {missing[0]} |")
            lines += [f"| | | {more} |" for more in missing[1:]]
    return "\n".join(lines)


def main(checkout: str) -> None:
    """Print the table of a checkout."""
    import graph_quant  # noqa: F401  (before torch)
    import torch_npu  # noqa: F401
    from graph_quant.meta import RECORDS

    supported = {name.partition("::")[2].partition(".")[0] for name in RECORDS.names()}
    models = sorted(path for path in (Path(checkout) / "models").iterdir() if path.is_dir())
    print(to_markdown({path.name: named(path) for path in models}, supported))


if __name__ == "__main__":
    main(*sys.argv[1:2])
