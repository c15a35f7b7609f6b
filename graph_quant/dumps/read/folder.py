"""Finds dumps in folders."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from ..errors import DumpError
from .formats import looks_like_dump

_NAME = re.compile(r"dynamo_(?P<stage>original|optimized)_graph_(?P<graph>\d+_rank_\d+_pid_\d+)_ts_\d+\.(?P<kind>\w+)$")


def find_dumps(paths: Iterable[str | Path]) -> list[Path]:
    """Find dumps in files and folders.

    Args:
        paths: Files, which are returned as they are, and folders, which are searched at any depth.

    Returns:
        The dumps without repetition. Of a graph that TorchAir dumped before and after optimising it, only the
        optimised one.

    Raises:
        DumpError: If a folder contains no dump.

    Examples:
        >>> for path in find_dumps(["dumps/"]):
        ...     print(path, len(load(path).lint()))
    """
    files: dict[Path, None] = {}
    for path in map(Path, paths):
        if path.is_dir():
            files.update(dict.fromkeys(_keep_last_stages(list_dumps(path))))
        else:
            files[path] = None
    return list(files)


def list_dumps(folder: Path) -> list[Path]:
    """List all dumps in a folder, at any depth.

    Args:
        folder: The folder.

    Returns:
        The dumps, sorted.

    Raises:
        DumpError: If the folder contains no dump.

    Examples:
        >>> group_pass_dumps(list_dumps(Path("dumps")))
    """
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
