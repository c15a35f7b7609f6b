"""Every private name of torch, torch_npu and TorchAir that the package uses is listed, and exists."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from graph_quant import doctor, private_apis

ROOT = Path(__file__).parents[2]
UPSTREAM = ("torch", "torch_npu", "torchair")
# Documented names of the standard library.
STANDARD_LIBRARY = {"_SubParsersAction", "_asdict", "_replace", "_getframe"}
TREES = {
    path.relative_to(ROOT): ast.parse(path.read_text(encoding="utf-8"))
    for folder in ("graph_quant", "meta", "converters")
    for path in (ROOT / folder).rglob("*.py")
    if path.name != "private_apis.py"
}


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def _own_names() -> set[str]:
    """Return the names that the package defines: functions, classes, variables, and attributes that it sets."""
    names: set[str] = set()
    for tree in TREES.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                names.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.add(node.id)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                names.add(node.attr)
    return names


def _touched(tree: ast.AST, own: set[str]) -> Iterator[str]:
    """Yield the paths of upstream imports, and private attributes that the package does not define."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and (node.module or "").split(".")[0] in UPSTREAM:
            yield from (f"{node.module}.{name.name}" for name in node.names)
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name.split(".")[0] in UPSTREAM)
        elif isinstance(node, ast.Attribute) and node.attr not in own | STANDARD_LIBRARY and _is_private(node.attr):
            yield f".{node.attr}"


def _listed(touched: str) -> bool:
    if touched.startswith("."):
        parts = {part for path in _paths() for part in path.split(".")}
        return touched[1:] in parts
    return any(f"{path}.".startswith(f"{touched}.") for path in _paths())


def _paths() -> list[str]:
    """The dotted paths of all private APIs and their alternatives."""
    return [path.replace(" ", ".") for api in private_apis.PRIVATE_APIS for path in (api.path, *api.alternatives)]


def test_every_private_name_is_listed() -> None:
    own = _own_names()
    missing = {
        f"{path}: {touched}"
        for path, tree in TREES.items()
        for touched in _touched(tree, own)
        if any(_is_private(part) for part in touched.split(".")) and not _listed(touched)
    }
    assert missing == set(), "list them in graph_quant/private_apis.py, with what depends on them"


def test_used_by_lists_files() -> None:
    assert [api.path for api in private_apis.PRIVATE_APIS if not api.used_by] == []
    memory = next(api for api in private_apis.PRIVATE_APIS if api.name == "_construct_storage_from_data_pointer")
    assert memory.used_by == ["graph_quant/host/alias.py", "graph_quant/host/engine/inputs.py"]
    converters = next(api for api in private_apis.PRIVATE_APIS if api.name == "get_default_ge_graph")
    assert "converters/lowering.py" in converters.used_by


def test_private_apis_exist() -> None:
    assert list(private_apis.missing()) == []


@pytest.mark.parametrize(
    "path", ["torch._no_such_name", "torch.fx.GraphModule _no_such_name", "torchair.no.such_module"]
)
def test_doctor_reports_what_is_off_without_a_name(monkeypatch, path: str) -> None:
    monkeypatch.setattr(private_apis, "PRIVATE_APIS", (private_apis.PrivateApi(path, "one thing does not work"),))
    diagnosis = doctor.Diagnosis()
    doctor._private_apis(diagnosis)
    where = f"{path.replace(' ', ': ')} not in the installed torch, torch_npu or TorchAir"
    assert diagnosis.warnings == [f"one thing does not work: {where}"]


def test_doctor_names_files_that_use_missing_apis(monkeypatch) -> None:
    path = "torch._C._no._construct_storage_from_data_pointer"
    missing = [private_apis.PrivateApi(name, "no memory") for name in (path, "torch._no_such_name")]
    monkeypatch.setattr(private_apis, "PRIVATE_APIS", missing)
    diagnosis = doctor.Diagnosis()
    doctor._private_apis(diagnosis)
    files = "graph_quant/host/alias.py, graph_quant/host/engine/inputs.py"
    (warning,) = diagnosis.warnings
    assert warning.startswith(f"no memory: {path} ({files}) and 1 more not in the installed torch")
