"""Loads single files of a framework; their other imports from it are stubbed.

A stub module has every attribute: a class that can be a base class, and whose call returns a null object. Values that
a file really needs are given with the framework.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any


@dataclass(frozen=True)
class Framework:
    """``roots`` are its packages, ``real`` modules loaded from ``folder`` of a checkout, ``answers`` stubbed values."""

    roots: tuple[str, ...]
    real: frozenset[str]
    folder: str = "."
    answers: Mapping[str, Any] = field(default_factory=dict)


class _Null:
    """A false null object: every attribute and call of it is the object itself."""

    def __bool__(self) -> bool:
        return False

    def __call__(self, *_: Any, **__: Any) -> _Null:
        return self

    def __getattr__(self, name: str) -> _Null:
        if name.startswith("__"):
            raise AttributeError(name)
        return self


NULL = _Null()


class _StubMeta(type):
    """Metaclass of stub classes: calling a stub returns the null object, calling a subclass makes an instance."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return NULL if "is_stub" in vars(cls) else super().__call__(*args, **kwargs)

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return NULL

    def __getitem__(cls, _: Any) -> Any:
        return cls


class _StubModule(ModuleType):
    answers: Mapping[str, Any]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value = self.answers.get(f"{self.__name__}.{name}", _StubMeta(name, (), {"is_stub": True}))
        setattr(self, name, value)
        return value


class _Finder(MetaPathFinder, Loader):
    def __init__(self, framework: Framework, checkout: Path) -> None:
        self.framework, self.folder = framework, checkout / framework.folder

    def find_spec(self, name: str, _path: Sequence[str] | None, _target: ModuleType | None = None) -> ModuleSpec | None:
        if name.partition(".")[0] not in self.framework.roots:
            return None
        if name in self.framework.real:
            return importlib.util.spec_from_file_location(name, self.folder / (name.replace(".", "/") + ".py"))
        return ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = _StubModule(spec.name)
        module.answers = self.framework.answers
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: a stub has no code."""


def install(framework: Framework, checkout: Path) -> None:
    """Import the framework from ``checkout`` in this process from now on."""
    sys.meta_path.insert(0, _Finder(framework, checkout))
