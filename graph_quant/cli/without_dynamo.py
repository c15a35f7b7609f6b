"""Dynamo, left unloaded by commands that only look at dumps: it is a third of the time and 36 MiB of what they load.

Fake tensors and symbolic sizes need four of its modules (config, exc, source, utils), and its package, which is loaded
before them, loads the rest. Here the package is there and its code is not: those modules and what they import load as
ever, what torch marks for a compiler is noted, and anything else that is asked of the package loads it, marks and all.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

_PACKAGE = "torch._dynamo"
# What can be loaded before the package: these import no other module of it.
_STANDALONE = ("aot_compile_types", "bytecode_analysis", "bytecode_transformation", "callback", "config",
               "device_interface", "exc", "graph_utils", "metrics_context", "source", "utils")  # fmt: skip

Mark = Callable[[ModuleType], object]


def leave_dynamo_unloaded() -> None:
    """Put it off for the rest of this process, if it is not loaded already."""
    if _PACKAGE not in sys.modules and not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder):
    """Finds the package as one to be loaded later, and loads it before any module that does not stand apart."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        above, _, name = fullname.rpartition(".")
        package = sys.modules.get(_PACKAGE)
        if fullname == _PACKAGE and package is None:
            return self._put_off()
        if above == _PACKAGE and name not in _STANDALONE and isinstance(package, _DeferredPackage):
            package.load()
            if fullname in sys.modules:
                return ModuleSpec(fullname, _LoadedLoader(sys.modules[fullname]))
        return None

    def _put_off(self) -> ModuleSpec | None:
        sys.meta_path.remove(self)
        spec = find_spec(_PACKAGE)
        sys.meta_path.insert(0, self)
        if spec is not None and spec.loader is not None:
            spec.loader = _DeferredLoader(spec.loader)
        return spec


class _DeferredLoader(Loader):
    """Makes the package without running its code."""

    def __init__(self, real: Loader) -> None:
        self.real = real

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _DeferredPackage(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing yet."""


class _LoadedLoader(Loader):
    """Gives a module that was loaded while it was looked for."""

    def __init__(self, module: ModuleType) -> None:
        self._module, self._spec = module, module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:  # noqa: ARG002
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec


class _DeferredPackage(ModuleType):
    """The package without its code, which runs when something is asked for that only the code gives."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__marks: list[Mark] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        if name in _STANDALONE:
            return import_module(f"{self.__name__}.{name}")
        self.load()
        return getattr(self, name)

    def load(self) -> None:
        """Run the code, then make the marks that were asked for before."""
        loader, marks = self.__loader__, self.__marks
        assert isinstance(loader, _DeferredLoader)
        self.__class__ = ModuleType  # type: ignore[assignment]
        loader.real.exec_module(self)
        for mark in marks:
            mark(self)

    def disable(self, fn: Any = None, recursive: bool = True, **options: Any) -> Any:
        """Keep a compiler out of a function: as torch asks for its own, which needs nothing while there is none."""
        if fn is None or options != {"wrapping": False}:
            self.load()
            return self.disable(fn, recursive, **options)  # now the real one
        self.__marks.append(lambda real: setattr(fn, "__dynamo_disable", real.disable(fn, recursive, **options)))
        return fn

    def assume_constant_result(self, fn: Any) -> Any:
        """Tell a compiler that a function has one result."""
        self.__marks.append(lambda real: real.assume_constant_result(fn))
        return fn
