"""Writes the optimised GE graph of each compiled function to a folder, in a file named after the function."""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from ..releases.alternatives import traced_module

if TYPE_CHECKING:
    from torch.fx import GraphModule

VARIABLE = "GRAPH_QUANT_DUMP"
OPTION = "dump"

_option: ContextVar[str] = ContextVar("_option", default="")
_function: ContextVar[str] = ContextVar("_function", default="graph")
_written: Counter[Path] = Counter()
_lock = Lock()
_FRAME_FUNCTION = re.compile(r'File "[^"]*", line \d+, in ([^\n]*)')


def take_option(backend: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the npu backend so that it takes ``torch.compile(..., options={"dump": folder})``."""

    @wraps(backend)
    def compile_graph(*args: Any, options: dict[str, Any] | None = None, **kwargs: Any) -> Any:
        left = dict(options or {})
        folder = left.pop(OPTION, None)
        if left:
            kwargs["options"] = left
        if folder is None:
            return backend(*args, **kwargs)
        if not isinstance(folder, str | os.PathLike) or not os.fspath(folder):
            raise TypeError(f'torch.compile: options["{OPTION}"] must be a folder, got {folder!r}')
        token = _option.set(os.fspath(folder))
        try:
            return backend(*args, **kwargs)
        finally:
            _option.reset(token)

    return compile_graph


@contextmanager
def named_after(gm: GraphModule) -> Iterator[None]:
    """Name the dumps of the block after the function that Dynamo traced into ``gm``, and say if there is none."""
    if not _folder():
        yield
        return
    name, before = function_name(gm), _written.total()
    token = _function.set(name)
    try:
        yield
    finally:
        _function.reset(token)
    if _written.total() == before:
        print(f"graph_quant: no dump of {name}: it is captured or runs eagerly, and has no GE graph", file=sys.stderr)


def function_name(gm: GraphModule) -> str:
    """The class of the compiled module, or the name of the compiled function."""
    frames = [_FRAME_FUNCTION.findall(node.stack_trace or "") for node in gm.graph.nodes]
    outermost = next((functions[0].strip() for functions in frames if functions), "graph")
    owner = traced_module()
    if owner is not None and outermost in ("graph", "forward", _code_name(type(owner).forward)):
        outermost = type(owner).__name__
    return _as_file_name(outermost)


def _code_name(function: Any) -> str:
    """The name that a frame of the function has: of a decorated one, that of the decorator's wrapper."""
    return str(getattr(getattr(function, "__code__", None), "co_name", ""))


def _as_file_name(name: str) -> str:
    return re.sub(r"\W+", "_", name.rpartition(".")[2]).strip("_")[:80] or "graph"


def write(graph: Any) -> None:
    """Write an optimised graph, if a folder is set."""
    folder = _folder()
    if not folder:
        return
    path = Path(folder).absolute()
    path.mkdir(parents=True, exist_ok=True)
    rank = f"-rank{os.environ['RANK']}" if int(os.environ.get("WORLD_SIZE") or 1) > 1 and "RANK" in os.environ else ""
    stem = path / f"{_function.get()}{rank}"
    with _lock:
        _written[stem] += 1
        number = _written[stem]
    graph.dump(f"{stem}{f'-{number}' if number > 1 else ''}.txt")


def _folder() -> str:
    return _option.get() or os.environ.get(VARIABLE, "")
