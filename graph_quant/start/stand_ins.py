"""Stand-ins for compiled extensions that are not installed, as they cannot be built without CANN.

A package names them in the entry point group ``graph_quant.extensions``. The name of an entry point is what is missing:
a module such as ``my_ops._C``, or a shared library such as ``libmy_ops.so`` that a package loads by
``torch.ops.load_library``. Its value is the module that is imported instead. It defines the operators of the extension,
declares their records, and names in ``__all__`` the functions that the module itself has.

A stand-in is asked for only after every other way to import the module has failed, so that an extension that is
installed is used as it is.
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.util
import sys
import warnings
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from threading import RLock
from types import ModuleType
from typing import Any

import torch

ENTRY_POINTS = "graph_quant.extensions"
_OWN = "graph_quant"

# The stand-ins that are loaded, by extension; None for those that failed.
_loaded: dict[str, ModuleType | None] = {}
# The extension of each operator that a stand-in defines.
_origins: dict[str, str] = {}
_lock = RLock()


def install() -> None:
    """Find stand-ins where an import, or the loading of a library, would fail. Calling it again does nothing."""
    if any(isinstance(finder, StandInFinder) for finder in sys.meta_path):
        return
    sys.meta_path.append(StandInFinder())
    vars(torch.ops)["load_library"] = _load_library_or_stand_in(torch.ops.load_library)


@functools.cache
def declared() -> dict[str, EntryPoint]:
    """Return the entry points by extension; another package's come before those of this package."""
    entries = sorted(entry_points(group=ENTRY_POINTS), key=lambda entry: not entry.module.startswith(f"{_OWN}."))
    return {entry.name: entry for entry in reversed(entries)}


def origin(operator: str) -> str | None:
    """Return the compiled extension of an operator that a stand-in defines."""
    return _origins.get(operator)


def operators() -> set[str]:
    """Return the operators that the loaded stand-ins define."""
    return set(_origins)


def load_absent() -> None:
    """Load the stand-ins of all extensions that are not installed."""
    for extension in declared():
        if not is_installed(extension):
            load(extension)


def load(extension: str) -> ModuleType | None:
    """Import the stand-in of an extension and register its operators; None, after a warning, if it is faulty."""
    with _lock:
        if extension not in _loaded:
            _loaded[extension] = None  # an import of the extension by the stand-in itself fails
            entry = declared()[extension]
            try:
                _loaded[extension] = _load(extension, entry)
            except Exception as error:
                warnings.warn(
                    f"graph_quant: the stand-in {entry.value} for {extension}, which {_distribution(entry)} declares, "
                    f"is skipped: {type(error).__name__}: {error}",
                    RuntimeWarning,
                    stacklevel=2,
                )
        return _loaded[extension]


def _load(extension: str, entry: EntryPoint) -> ModuleType:
    from ..host import device
    from ..meta import registration
    from ..meta.definitions import refuse_names

    before = _operators()
    module: ModuleType = entry.load()
    defined = _operators() - before
    with_record = defined & registration.installed_records()
    registration.register_names(with_record)
    device.register_names(with_record)
    refuse_names(defined - with_record - _with_kernel(defined), extension)
    _origins.update(dict.fromkeys(defined, extension))
    return module


def _operators() -> set[str]:
    """Return all operators except the steps that references of this package define where they are imported."""
    return {name for name in torch._C._dispatch_get_all_op_names() if not name.startswith(f"{_OWN}::")}


def _with_kernel(operators: set[str]) -> set[str]:
    """Return those of the operators for which the stand-in itself registers a kernel."""
    keys = ("CPU", "PrivateUse1", "CompositeExplicitAutograd", "CompositeImplicitAutograd")
    kernels = (torch._C._dispatch_get_registrations_for_dispatch_key(key) for key in keys)
    return operators.intersection(*[set().union(*kernels)])


def _distribution(entry: EntryPoint) -> str:
    return "a package" if entry.dist is None else str(entry.dist.name)


def is_installed(extension: str) -> bool:
    """Whether the module of an extension is found without a stand-in. Its parent packages are not imported.

    A library is known by the folder in which a package looks for it: it counts as missing.
    """
    if _is_library(extension):
        return False
    parent, _, _ = extension.partition(".")
    spec: ModuleSpec | None
    try:
        spec = None if parent == extension else importlib.util.find_spec(parent)
    except (ImportError, ValueError):
        return False
    parts = extension.split(".")
    if parent == extension:
        return PathFinder.find_spec(extension) is not None
    for depth in range(2, len(parts) + 1):
        if spec is None or spec.submodule_search_locations is None:
            return False
        spec = PathFinder.find_spec(".".join(parts[:depth]), spec.submodule_search_locations)
    return spec is not None


def _is_library(extension: str) -> bool:
    return extension.endswith((".so", ".dylib", ".dll"))


class StandInFinder(importlib.abc.MetaPathFinder):
    """Finds the stand-in of a module that no other finder finds."""

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """Return a specification that imports the stand-in, if a package declares one."""
        if name not in declared() or _is_library(name) or _loaded.get(name, self) is None:
            return None
        return ModuleSpec(name, StandInLoader(), origin=f"stand-in {declared()[name].value}")


class StandInLoader(importlib.abc.Loader):
    """Fills a module with the names that its stand-in exports."""

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:  # noqa: ARG002
        """Let Python create the module."""
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Import the stand-in; an extension without a usable one is missing, as before."""
        stand_in = load(module.__name__)
        if stand_in is None:
            raise ModuleNotFoundError(f"No module named {module.__name__!r}", name=module.__name__)
        module.__doc__ = stand_in.__doc__
        vars(module).update({name: getattr(stand_in, name) for name in getattr(stand_in, "__all__", ())})


def _load_library_or_stand_in(load_library: Any) -> Any:
    @functools.wraps(load_library)
    def load_library_or_stand_in(path: Any) -> None:
        file = Path(path)
        if file.name in declared() and not file.exists() and load(file.name) is not None:
            return
        load_library(path)

    return load_library_or_stand_in
