"""Nothing that a kernel reads changes between calls but its arguments: compiled code does not look whether it has."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard

import graph_quant
import pytest

PACKAGE = Path(graph_quant.__file__).parent
FOLDERS = ("reference", "host/kernels")
CHANGING_METHODS = {"append", "add", "clear", "extend", "insert", "pop", "popitem", "remove", "setdefault", "update"}
# What says of itself that it changes.
CHANGING_KINDS = {"ContextVar", "Setting", "environ", "getenv"}
# What is said once, when the host starts.
ALLOWED = {"reference/collective/process_group.py: _resolvers"}


def changes(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """The names of a module that its functions change, or that stand for what changes, and the line."""
    assigned = [node for node in tree.body if isinstance(node, (ast.Assign, ast.AnnAssign))]
    names = {each.id for node in assigned for each in ast.walk(node) if _is_stored(each)}
    for function in ast.walk(tree):
        if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        inside = list(ast.walk(function))
        own = {each.arg for each in inside if isinstance(each, ast.arg)} | {
            each.id for each in inside if _is_stored(each)
        }
        for node in inside:
            if isinstance(node, ast.Global):
                yield from ((name, node.lineno) for name in node.names)
            elif (changed := _changed(node)) in names - own:
                yield str(changed), node.lineno
    for node in ast.walk(tree):
        said = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        if said in CHANGING_KINDS:
            yield said, node.lineno


def _is_stored(node: ast.AST) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def _changed(node: ast.AST) -> str | None:
    """The name whose value a node changes in place."""
    if isinstance(node, (ast.Subscript, ast.Attribute)) and isinstance(node.ctx, (ast.Store, ast.Del)):
        return _root(node.value)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGING_METHODS:
        return _root(node.func.value)
    return None


def _root(node: ast.expr) -> str | None:
    while isinstance(node, (ast.Subscript, ast.Attribute)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


@pytest.mark.parametrize("folder", FOLDERS)
def test_kernels_read_no_mutable_state(folder: str) -> None:
    found = {
        f"{path.relative_to(PACKAGE)}: {name}": line
        for path in sorted((PACKAGE / folder).rglob("*.py"))
        for name, line in changes(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert not {place: line for place, line in found.items() if place not in ALLOWED}


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
    assert list(changes(ast.parse(code)))


def test_local_state_is_allowed() -> None:
    assert not list(changes(ast.parse("seen = []\ndef f(seen):\n    seen.append(1)\n    made = {}\n    made[0] = 1")))
