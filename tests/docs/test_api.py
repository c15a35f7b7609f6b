"""The API reference has every public name, each with a docstring in Google style."""

import dataclasses
import enum
import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import graph_quant
import pytest

API = Path(__file__).parents[2] / "docs" / "api"
NAMES = [
    name for page in sorted(API.glob("*.md")) for name in re.findall(r"^::: (\S+)$", page.read_text(), re.MULTILINE)
]
MODULES = (
    "graph_quant.verification",
    "graph_quant.dryrun",
    "graph_quant.nn",
    "graph_quant.dumps",
    "graph_quant.extension",
)


def resolve(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def documented(entry: Any, name: str) -> list[str]:
    """What the docstring of a function or class lacks."""
    doc = inspect.getdoc(entry) or ""
    if not doc:
        return [f"{name}: no docstring"]
    if inspect.isclass(entry):
        return _class(entry, name, doc)
    return _function(entry, name, doc) if callable(entry) else []


def _function(function: Any, name: str, doc: str) -> list[str]:
    signature = inspect.signature(function)
    parameters = [parameter for parameter in signature.parameters if parameter not in ("self", "cls")]
    lacks = []
    if parameters and "Args:" not in doc:
        lacks.append(f"{name}: no Args")
    returned = signature.return_annotation
    if returned not in (None, "None", "NoReturn") and not re.search(r"^(Returns|Yields):", doc, re.MULTILINE):
        lacks.append(f"{name}: no Returns")
    return lacks


def _class(entry: type, name: str, doc: str) -> list[str]:
    """Parameters of a constructor are documented; fields of a dataclass are arguments or attributes."""
    if issubclass(entry, enum.Enum | BaseException) or getattr(entry, "_is_protocol", False):
        return []
    own = vars(entry).get("__init__")
    parameters = list(inspect.signature(own).parameters)[1:] if own is not None else []
    shown = doc + (inspect.getdoc(own) or "" if own is not None and not dataclasses.is_dataclass(entry) else "")
    return [f"{name}: no Args or Attributes"] if parameters and not re.search(r"(Args|Attributes):", shown) else []


@pytest.mark.parametrize("name", NAMES)
def test_public_name_is_documented(name: str) -> None:
    assert documented(resolve(name), name) == []


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_is_on_a_page(module: str) -> None:
    shown = {id(resolve(name)) for name in NAMES}
    package = importlib.import_module(module)
    assert [name for name in package.__all__ if id(getattr(package, name)) not in shown] == []


def test_the_functions_of_the_package_are_on_a_page() -> None:
    shown = [resolve(name) for name in NAMES]
    assert graph_quant.verify in shown
    assert graph_quant.plan in shown
