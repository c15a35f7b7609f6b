"""Which part of the package may ask which, read from its imports."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# The upper ask the lower, never the other way round. What stands in one line does not ask each other.
LAYERS = [
    {"__main__"},
    {"cli", "pytest"},
    {"operator_support_page"},
    {"verification", "dryrun", "doctor", "operator_support"},
    {"scripts"},
    {"private_apis", "modes", "aten"},
    {"start", "dumps", "upstream", "extension"},
    {"host", "converters", "nn", "passes"},
    {"meta"},
    {"reference"},
    {"quant_params", "int4", "chip"},
    {"destination"},
    {"ge", "pages"},
    {"generate_index"},
    {"discovery", "dispatcher", "native", "operator_index", "settings"},
    {"releases"},
    {"refusals"},
]
SUBPACKAGE_LAYERS = {
    "dumps": [{"dump"}, {"render"}, {"analyse"}, {"read", "graph"}, {"errors"}],
    "verification": [{"run"}, {"report"}, {"compare"}, {"errors"}],
}
# What stands in these is asked for by the folder's own name.
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
    """What each module imports, with meta/ and converters/ in their places."""
    tree = tmp_path_factory.mktemp("tree")
    no_code = shutil.ignore_patterns("__pycache__", "lib", "shim")
    shutil.copytree(ROOT / "graph_quant", tree / "graph_quant", ignore=no_code)
    for name in ("meta", "converters"):
        shutil.copytree(ROOT / name, tree / "graph_quant" / name, ignore=no_code)
    done = subprocess.run([sys.executable, "-c", BUILD], cwd=tree, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {"graph_quant.meta", "graph_quant.ge.kernels"} <= set(found)
    return found


def _crossings(imports: dict[str, list[str]], package: str, layers: list[set[str]]) -> list[str]:
    rank = {f"{package}.{name}": place for place, names in enumerate(layers) for name in names}
    depth = package.count(".") + 2
    wrong = []
    for module, asked in imports.items():
        own = ".".join(module.split(".")[:depth])
        for other in (".".join(name.split(".")[:depth]) for name in asked):
            if own in rank and other in rank and own != other and rank[own] >= rank[other]:
                wrong.append(f"{module} asks {other}")
    return wrong


def test_layers_name_every_package(imports) -> None:
    parts = {name.split(".")[1] for name in imports if name.count(".")}
    assert parts == set().union(*LAYERS)
    for package, rooms in SUBPACKAGE_LAYERS.items():
        inside = {name.split(".")[2] for name in imports if name.startswith(f"graph_quant.{package}.")}
        assert inside == set().union(*rooms)


def test_packages_import_lower_layers_only(imports) -> None:
    assert _crossings(imports, "graph_quant", LAYERS) == []


@pytest.mark.parametrize("package", SUBPACKAGE_LAYERS)
def test_subpackages_import_lower_layers_only(imports, package: str) -> None:
    rooms = SUBPACKAGE_LAYERS[package]
    assert _crossings(imports, f"graph_quant.{package}", rooms) == []


@pytest.mark.parametrize("package", PUBLIC_PACKAGES)
def test_public_packages_are_imported_by_their_own_name(imports, package: str) -> None:
    inside = f"graph_quant.{package}"
    around = [
        f"{module} asks {other}"
        for module, asked in imports.items()
        for other in asked
        if other.startswith(f"{inside}.") and not f"{module}.".startswith(f"{inside}.")
    ]
    assert around == []


def test_no_import_cycles_between_packages(imports) -> None:
    packages = {name for name in imports if any(other.startswith(f"{name}.") for other in imports)} - {"graph_quant"}
    asks: dict[str, set[str]] = {}
    for package in packages:
        siblings = {other for other in packages if other.rpartition(".")[0] == package.rpartition(".")[0]} - {package}
        inside = [name for name in imports if f"{name}.".startswith(f"{package}.")]
        asked = {other for name in inside for other in imports[name]}
        asks[package] = {each for each in siblings if any(f"{other}.".startswith(f"{each}.") for other in asked)}
    circles = {frozenset((one, other)) for one in asks for other in _reached(asks, one) if one in _reached(asks, other)}
    assert {pair for pair in circles if len(pair) == 2} == set()


def _reached(asks: dict[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        for other in asks[waiting.pop()] - found:
            found.add(other)
            waiting.append(other)
    return found
