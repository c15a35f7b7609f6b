"""Finds the modules of a package, so that adding one means adding a file and nothing else."""

from __future__ import annotations

import importlib
import pkgutil

# The entry points with which other packages register operators of their own.
ENTRY_POINTS = "graph_quant.operators"


def load_all(package: str) -> None:
    """Imports every module of ``package`` and of the folders in it."""
    for found in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
        importlib.import_module(found.name)
