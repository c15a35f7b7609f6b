"""Finds the dumps in folders."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from ..errors import DumpError
from .formats import looks_like_dump

_NAME = re.compile(r"dynamo_(?P<stage>original|optimized)_graph_(?P<graph>\d+_rank_\d+_pid_\d+)_ts_\d+\.(?P<kind>\w+)$")


def find_dumps(paths: Iterable[str | Path]) -> list[Path]:
    """The files among ``paths``, and the dumps in the folders among them, at any depth.

    A graph that TorchAir dumped before and after it optimised it is taken after that: only this one runs.
    """
    files: dict[Path, None] = {}
    for path in map(Path, paths):
        if path.is_dir():
            files.update(dict.fromkeys(_keep_last_stages(list_dumps(path))))
        else:
            files[path] = None
    return list(files)


def list_dumps(folder: Path) -> list[Path]:
    """Every dump in a folder, at any depth."""
    inside = [path for path in sorted(folder.rglob("*")) if path.is_file() and looks_like_dump(path)]
    if not inside:
        raise DumpError(f"{folder}: there is no dump in this folder")
    return inside


def _keep_last_stages(paths: list[Path]) -> list[Path]:
    graphs = {path: _NAME.search(path.name) for path in paths}
    optimised = {_graph_key(path, name) for path, name in graphs.items() if name and name["stage"] == "optimized"}
    return [
        path
        for path, name in graphs.items()
        if not name or name["stage"] == "optimized" or _graph_key(path, name) not in optimised
    ]


def _graph_key(path: Path, name: re.Match[str]) -> tuple[Path, str, str]:
    return path.parent, name["graph"], name["kind"]
