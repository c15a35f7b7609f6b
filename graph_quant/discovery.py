"""Finds the modules of a package, so that adding one means adding a file and nothing else."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from types import ModuleType


def modules(package: str) -> list[ModuleType]:
    """Every module of ``package``, imported, by name."""
    found = pkgutil.iter_modules(sys.modules[package].__path__)
    return [importlib.import_module(f"{package}.{each.name}") for each in found]


def below(package: str) -> list[ModuleType]:
    """Every module below ``package``, also those in folders of it, imported, by name."""
    path = importlib.import_module(package).__path__
    return [importlib.import_module(each.name) for each in pkgutil.walk_packages(path, f"{package}.")]


def operators(package: str) -> list[ModuleType]:
    """The modules of ``package`` that say which operator they serve, in a constant ``OPERATOR``."""
    return [module for module in modules(package) if hasattr(module, "OPERATOR")]
