"""Writes the schemas of releases from the text of their wheels: ``python tests/releases/extract_schemas.py WHEEL...``.

torch_npu's library holds the schema of each operator as a string, so no release has to be installed. The first wheel
is the newest release, whose schemas become ``declared.txt``; of the others only what differs is written.
"""

from __future__ import annotations

import argparse
import re
import zipfile
from collections.abc import Sequence
from pathlib import Path

import graph_quant  # noqa: F401  (before torch: it makes torch_npu load)
import torch
from graph_quant.meta import RECORDS
from graph_quant.releases.schemas import ABSENT, DECLARED, FOLDER

_LIBRARY = "torch_npu/lib/libtorch_npu.so"
_SCHEMA = re.compile(rb"^(?:npu::)?(\w+(?:\.\w+)?)\([^\0]*\) -> [^\0]+$")
_ARROW = b") -> "


def read_wheel(wheel: Path) -> dict[str, str]:
    """The schemas in a wheel, in PyTorch's spelling, by the operator's name with its namespace."""
    with zipfile.ZipFile(wheel) as files:
        data = files.read(_LIBRARY)
    schemas: dict[str, str] = {}
    position = data.find(_ARROW)
    while position >= 0:
        text = data[data.rfind(b"\0", 0, position) + 1 : data.find(b"\0", position)]
        if match := _SCHEMA.match(text):
            schema = _parse(text.decode("latin1").removeprefix("npu::"))
            if schema is not None:
                schemas[f"npu::{match[1].decode()}"] = schema
        position = data.find(_ARROW, position + len(_ARROW))
    return schemas


def _parse(text: str) -> str | None:
    try:
        return str(torch._C.parse_schema(f"npu::{text}"))
    except RuntimeError:  # a string that only looks like a schema
        return None


def write(wheels: Sequence[Path], names: Sequence[str]) -> None:
    """Write the files of all wheels, of the operators ``names``."""
    declared = read_wheel(wheels[0])
    _write_lines(DECLARED, [declared[name] for name in names if name in declared])
    for wheel in wheels[1:]:
        schemas = read_wheel(wheel)
        changed = [name for name in names if name in declared and schemas.get(name) != declared[name]]
        _write_lines(wheel.name.split("-")[1], [schemas.get(name, f"{ABSENT}{name}") for name in changed])


def _write_lines(release: str, lines: Sequence[str]) -> None:
    text = "".join(f"{line}\n" for line in lines)
    (FOLDER / f"{release}.txt").write_text(text, encoding="utf-8")


def main() -> None:
    """Read the command line and write the files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheels", nargs="+", type=Path, metavar="WHEEL", help="wheels of torch_npu, the newest first")
    wheels: list[Path] = parser.parse_args().wheels
    write(wheels, sorted(name for name in RECORDS.names() if name.startswith("npu::")))


if __name__ == "__main__":
    main()
