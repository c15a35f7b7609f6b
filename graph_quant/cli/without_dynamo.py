"""Defers loading Dynamo in commands that only read dumps, which saves a third of their start time and 36 MiB.

Fake tensors and symbolic sizes need four modules of torch._dynamo (config, exc, source, utils), but importing them runs
the package's ``__init__``, which loads everything. Here the package is an empty stand-in from which these modules can
be imported. Decorators that torch applies to its functions are recorded; any other attribute loads the real package
and then applies them.
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
# Modules that import nothing else of the package.
_STANDALONE = ("aot_compile_types", "bytecode_analysis", "bytecode_transformation", "callback", "config",
               "device_interface", "exc", "graph_utils", "metrics_context", "source", "utils")  # fmt: skip

Decoration = Callable[[ModuleType], object]


def leave_dynamo_unloaded() -> None:
    """Defer loading Dynamo in this process, unless it is loaded already."""
    if _PACKAGE not in sys.modules and not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder):
    """Finds the package with a deferred loader, and loads it before any module that is not standalone."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        above, _, name = fullname.rpartition(".")
        package = sys.modules.get(_PACKAGE)
        if fullname == _PACKAGE and package is None:
            return self._defer()
        if above == _PACKAGE and name not in _STANDALONE and isinstance(package, _DeferredPackage):
            package.load()
            if fullname in sys.modules:
                return ModuleSpec(fullname, _LoadedLoader(sys.modules[fullname]))
        return None

    def _defer(self) -> ModuleSpec | None:
        sys.meta_path.remove(self)
        spec = find_spec(_PACKAGE)
        sys.meta_path.insert(0, self)
        if spec is not None and spec.loader is not None:
            spec.loader = _DeferredLoader(spec.loader)
        return spec


class _DeferredLoader(Loader):
    """Creates the package without executing it."""

    def __init__(self, real: Loader) -> None:
        self.real = real

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _DeferredPackage(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Deferred."""


class _LoadedLoader(Loader):
    """Returns a module that was loaded during the search for it."""

    def __init__(self, module: ModuleType) -> None:
        self._module, self._spec = module, module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:  # noqa: ARG002
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec


class _DeferredPackage(ModuleType):
    """The package before its code has run; an attribute that needs the code runs it."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__decorations: list[Decoration] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        if name in _STANDALONE:
            return import_module(f"{self.__name__}.{name}")
        self.load()
        return getattr(self, name)

    def load(self) -> None:
        """Execute the package, then apply the recorded decorators."""
        loader, decorations = self.__loader__, self.__decorations
        assert isinstance(loader, _DeferredLoader)
        self.__class__ = ModuleType  # type: ignore[assignment]
        loader.real.exec_module(self)
        for decorate in decorations:
            decorate(self)

    def disable(self, fn: Any = None, recursive: bool = True, **options: Any) -> Any:
        """Record ``torch._dynamo.disable`` for a function of torch, in the only form that torch uses."""
        if fn is None or options != {"wrapping": False}:
            self.load()
            return self.disable(fn, recursive, **options)  # now the real one
        self.__decorations.append(lambda real: setattr(fn, "__dynamo_disable", real.disable(fn, recursive, **options)))
        return fn

    def assume_constant_result(self, fn: Any) -> Any:
        """Record ``torch._dynamo.assume_constant_result``."""
        self.__decorations.append(lambda real: real.assume_constant_result(fn))
        return fn
