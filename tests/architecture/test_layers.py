"""Packages import lower layers only, checked by the import graph."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# From the highest to the lowest layer: imports go down only. Packages of one layer do not import each other.
LAYERS = [
    {"__main__"},
    {"cli", "pytest"},
    {"operator_support_page"},
    {"verification", "dryrun", "doctor", "operator_support", "explain", "checkpoints"},
    {"scripts"},
    {"private_apis", "modes", "aten"},
    {"start", "dumps", "upstream", "extension", "extensions"},
    {"fusions", "host", "converters", "nn", "passes"},
    {"meta"},
    {"reference"},
    {"quant_params", "int4", "formats", "mistakes", "narrow_floats", "joined_linears"},
    {"destination"},
    {"ge", "pages"},
    {"generate_index"},
    {"discovery", "dispatcher", "native", "operator_index", "settings"},
    {"releases", "chip"},
    {"refusals"},
]
SUBPACKAGE_LAYERS = {
    "dumps": [{"dump"}, {"render"}, {"analyse"}, {"read", "graph"}, {"errors"}],
    "verification": [{"run"}, {"serving"}, {"report"}, {"compare"}, {"errors"}],
}
# Packages whose names are imported from the package itself, never from its modules.
PUBLIC_PACKAGES = (
    "cli",
    "dryrun",
    "dumps",
    "ge",
    "host.capture",
    "host.collectives",
    "host.device",
    "host.engine",
    "host.kernels",
    "nn",
    "verification",
)

BUILD = """
import grimp, json
graph = grimp.build_graph("graph_quant", exclude_type_checking_imports=True, cache_dir=None)
print(json.dumps({module: sorted(graph.find_modules_directly_imported_by(module)) for module in graph.modules}))
"""


@pytest.fixture(scope="module")
def imports(tmp_path_factory) -> dict[str, list[str]]:
    """Return the imports of each module, with meta/ and converters/ inside the package."""
    tree = tmp_path_factory.mktemp("tree")
    no_code = shutil.ignore_patterns("__pycache__", "lib", "shim")
    shutil.copytree(ROOT / "graph_quant", tree / "graph_quant", ignore=no_code)
    for name in ("meta", "converters"):
        shutil.copytree(ROOT / name, tree / "graph_quant" / name, ignore=no_code)
    done = subprocess.run([sys.executable, "-c", BUILD], cwd=tree, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    modules = json.loads(done.stdout)
    assert {"graph_quant.meta", "graph_quant.ge.kernels"} <= set(modules)
    return modules


def _upward_imports(imports: dict[str, list[str]], package: str, layers: list[set[str]]) -> list[str]:
    rank = {f"{package}.{name}": level for level, names in enumerate(layers) for name in names}
    depth = package.count(".") + 2
    wrong = []
    for module, imported in imports.items():
        own = ".".join(module.split(".")[:depth])
        for other in (".".join(name.split(".")[:depth]) for name in imported):
            if own in rank and other in rank and own != other and rank[own] >= rank[other]:
                wrong.append(f"{module} imports {other}")
    return wrong


def test_layers_name_every_package(imports) -> None:
    parts = {name.split(".")[1] for name in imports if name.count(".")}
    assert parts == set().union(*LAYERS)
    for package, layers in SUBPACKAGE_LAYERS.items():
        inside = {name.split(".")[2] for name in imports if name.startswith(f"graph_quant.{package}.")}
        assert inside == set().union(*layers)


def test_packages_import_lower_layers_only(imports) -> None:
    assert _upward_imports(imports, "graph_quant", LAYERS) == []


@pytest.mark.parametrize("package", SUBPACKAGE_LAYERS)
def test_subpackages_import_lower_layers_only(imports, package: str) -> None:
    assert _upward_imports(imports, f"graph_quant.{package}", SUBPACKAGE_LAYERS[package]) == []


@pytest.mark.parametrize("package", PUBLIC_PACKAGES)
def test_public_packages_are_imported_by_their_own_name(imports, package: str) -> None:
    inside = f"graph_quant.{package}"
    bypassing = [
        f"{module} imports {other}"
        for module, imported in imports.items()
        for other in imported
        if other.startswith(f"{inside}.") and not f"{module}.".startswith(f"{inside}.")
    ]
    assert bypassing == []


def test_no_import_cycles_between_packages(imports) -> None:
    packages = {name for name in imports if any(other.startswith(f"{name}.") for other in imports)} - {"graph_quant"}
    edges: dict[str, set[str]] = {}
    for package in packages:
        siblings = {other for other in packages if other.rpartition(".")[0] == package.rpartition(".")[0]} - {package}
        inside = [name for name in imports if f"{name}.".startswith(f"{package}.")]
        imported = {other for name in inside for other in imports[name]}
        edges[package] = {s for s in siblings if any(f"{other}.".startswith(f"{s}.") for other in imported)}
    cycles = {frozenset((a, b)) for a in edges for b in _reached(edges, a) if a in _reached(edges, b)}
    assert {pair for pair in cycles if len(pair) == 2} == set()


def _reached(edges: dict[str, set[str]], start: str) -> set[str]:
    reached: set[str] = set()
    pending = [start]
    while pending:
        for other in edges[pending.pop()] - reached:
            reached.add(other)
            pending.append(other)
    return reached
