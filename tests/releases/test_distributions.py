"""TorchAir of torch_npu 2.9.0 imports ``pkg_resources``, which a new setuptools does not have."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import pytest
from graph_quant.releases import distributions


def test_a_stand_in_is_found_inside_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, distributions.NAME, raising=False)
    monkeypatch.setattr(distributions, "find_spec", lambda name: None)  # noqa: ARG005
    with distributions.having_pkg_resources():
        module: Any = importlib.import_module(distributions.NAME)
        version = module.get_distribution("protobuf").version
        assert module.parse_version(version) >= module.parse_version("3.13")
        assert module.parse_version("3.9.2rc1") < module.parse_version("3.13") < module.parse_version("4")
    assert distributions.NAME not in sys.modules


def test_an_installed_module_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = type(sys)(distributions.NAME)
    monkeypatch.setitem(sys.modules, distributions.NAME, installed)
    with distributions.having_pkg_resources():
        assert importlib.import_module(distributions.NAME) is installed
    assert sys.modules[distributions.NAME] is installed
