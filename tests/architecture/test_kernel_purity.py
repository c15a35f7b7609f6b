"""Kernels read no mutable state: compiled code does not check whether it has changed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard

import graph_quant
import pytest

PACKAGE = Path(graph_quant.__file__).parent
FOLDERS = ("reference", "host/kernels")
MUTATING_METHODS = {"append", "add", "clear", "extend", "insert", "pop", "popitem", "remove", "setdefault", "update"}
# Names of mutable state.
MUTABLE_STATE = {"ContextVar", "Setting", "environ", "getenv"}
# Set once, when the host device starts; what only a warning of an operator depends on that is never compiled.
ALLOWED = {
    "reference/collective/process_group.py: _resolvers",
    "reference/rope/rotary_embedding.py: _first_table",
}


def find_mutable_state(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield the module's names that its functions modify, or that are mutable state, and the line."""
    assigned = [node for node in tree.body if isinstance(node, (ast.Assign, ast.AnnAssign))]
    names = {part.id for node in assigned for part in ast.walk(node) if _is_stored(part)}
    for function in ast.walk(tree):
        if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        inside = list(ast.walk(function))
        own = {part.arg for part in inside if isinstance(part, ast.arg)} | {
            part.id for part in inside if _is_stored(part)
        }
        for node in inside:
            if isinstance(node, ast.Global):
                yield from ((name, node.lineno) for name in node.names)
            elif (name := _mutated_name(node)) in names - own:
                yield str(name), node.lineno
    for node in ast.walk(tree):
        word = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        if word in MUTABLE_STATE:
            yield word, node.lineno


def _is_stored(node: ast.AST) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def _mutated_name(node: ast.AST) -> str | None:
    """Return the name whose value a node modifies in place."""
    if isinstance(node, (ast.Subscript, ast.Attribute)) and isinstance(node.ctx, (ast.Store, ast.Del)):
        return _root(node.value)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MUTATING_METHODS:
        return _root(node.func.value)
    return None


def _root(node: ast.expr) -> str | None:
    while isinstance(node, (ast.Subscript, ast.Attribute)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


@pytest.mark.parametrize("folder", FOLDERS)
def test_kernels_read_no_mutable_state(folder: str) -> None:
    lines = {
        f"{path.relative_to(PACKAGE)}: {name}": line
        for path in sorted((PACKAGE / folder).rglob("*.py"))
        for name, line in find_mutable_state(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert not {key: line for key, line in lines.items() if key not in ALLOWED}


@pytest.mark.parametrize(
    "code",
    [
        "count = 0\ndef f():\n    global count\n    count += 1",
        "seen = []\ndef f(x):\n    seen.append(x)",
        "kept = {}\ndef f(x):\n    kept[x] = 1",
        "from contextvars import ContextVar\nchosen = ContextVar('chosen')",
        "import os\ndef f():\n    return os.environ['X']",
    ],
)
def test_mutable_state_is_detected(code: str) -> None:
    assert list(find_mutable_state(ast.parse(code)))


def test_local_state_is_allowed() -> None:
    assert not list(
        find_mutable_state(ast.parse("seen = []\ndef f(seen):\n    seen.append(1)\n    made = {}\n    made[0] = 1"))
    )
