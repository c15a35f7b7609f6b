"""Loads single files of a framework: what they import of the rest of it is stood in for.

A stood-in module has every name: as a class to derive from, or to call and get nothing of. What a file needs to be
answered is stated with the framework.
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
    """``roots`` are its packages, ``real`` the modules that are loaded from ``folder`` of a checkout."""

    roots: tuple[str, ...]
    real: frozenset[str]
    folder: str = "."
    answers: Mapping[str, Any] = field(default_factory=dict)


class _Nothing:
    """False, and any attribute or call of it is nothing again."""

    def __bool__(self) -> bool:
        return False

    def __call__(self, *_: Any, **__: Any) -> _Nothing:
        return self

    def __getattr__(self, name: str) -> _Nothing:
        if name.startswith("__"):
            raise AttributeError(name)
        return self


NOTHING = _Nothing()


class _Open(type):
    """Of classes that stand in: calling one gives nothing, calling one that derives from it makes an instance."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return NOTHING if "stands_in" in vars(cls) else super().__call__(*args, **kwargs)

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return NOTHING

    def __getitem__(cls, _: Any) -> Any:
        return cls


class _StandIn(ModuleType):
    answers: Mapping[str, Any]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = self.answers.get(f"{self.__name__}.{name}", _Open(name, (), {"stands_in": True}))
        setattr(self, name, made)
        return made


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
        module = _StandIn(spec.name)
        module.answers = self.framework.answers
        return module

    def exec_module(self, module: ModuleType) -> None:
        """A stand-in has nothing to execute."""


def install(framework: Framework, checkout: Path) -> None:
    """Import the framework from ``checkout`` from now on, in this process."""
    sys.meta_path.insert(0, _Finder(framework, checkout))
