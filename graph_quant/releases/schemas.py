"""The schema that a record is written for, and how calls of another release's schema are bound to it.

``schemas/declared.txt`` has the schema of every torch_npu operator with a record, as the newest release states it. A
file per older release lists what differs there. ``tests/releases/extract_schemas.py`` writes them from wheels.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from ..refusals import Refusal

FOLDER = Path(__file__).parent / "schemas"
DECLARED = "declared"
ABSENT = "absent "

# Arguments that an older release calls by another name, by operator: the declared name and the older one.
RENAMED: Mapping[str, Mapping[str, str]] = {"npu_mhc_post_backward": {"grad_y": "grad_output"}}


@functools.cache
def read_schemas(release: str) -> dict[str, str | None]:
    """The schemas of one release by operator; None for an operator that it lacks.

    Args:
        release: A version of torch_npu that has a file, or ``DECLARED``.

    Returns:
        For ``DECLARED`` the schema of every operator; for a release only those that differ from it.
    """
    lines = (FOLDER / f"{release}.txt").read_text(encoding="utf-8").splitlines()
    schemas: dict[str, str | None] = {}
    for line in lines:
        if line.startswith(ABSENT):
            schemas[line.removeprefix(ABSENT)] = None
        elif line:
            schemas[line.partition("(")[0]] = line
    return schemas


def declared_schema(name: str) -> torch.FunctionSchema | None:
    """The schema that the record of ``name`` is written for; None for operators of other packages."""
    schema = read_schemas(DECLARED).get(name)
    return None if schema is None else torch._C.parse_schema(schema)


def releases() -> list[str]:
    """The releases with a file of differences, oldest first."""
    names = (path.stem for path in FOLDER.glob("*.txt") if path.stem != DECLARED)
    return sorted(names, key=lambda name: [int(part) for part in name.replace("post", "").split(".")])


def releases_without(name: str) -> list[str]:
    """The releases that lack an operator."""
    return [release for release in releases() if read_schemas(release).get(name, "") is None]


class Binding:
    """Binds calls of the installed schema to the arguments of the declared one, by name.

    An argument that the installed schema lacks has its declared default. One that only the installed schema has must
    be left at its default.
    """

    def __init__(self, name: str, declared: torch.FunctionSchema | None, installed: torch.FunctionSchema) -> None:
        self._name = name
        self.installed = frozenset(argument.name for argument in installed.arguments)
        self._installed = [(argument.name, argument.default_value) for argument in installed.arguments]
        self.arguments = tuple(argument.name for argument in (declared or installed).arguments)
        self._sources: list[tuple[int | None, Any]] | None = None
        self._unknown: list[tuple[int, str, Any]] = []
        if declared is not None and str(declared) != str(installed):
            self._match_names(declared)

    def _match_names(self, declared: torch.FunctionSchema) -> None:
        indices = {name: index for index, (name, _) in enumerate(self._installed)}
        older_names = RENAMED.get(self._name, {})
        self._sources = []
        for argument in declared.arguments:
            index = indices.pop(argument.name, None)
            if index is None:
                index = indices.pop(older_names.get(argument.name, ""), None)
            if index is None and not argument.has_default_value():
                raise TypeError(f"{self._name}: the installed torch_npu lacks the argument {argument.name}")
            self._sources.append((index, argument.default_value))
        self._unknown = [(index, name, self._installed[index][1]) for name, index in indices.items()]

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        """The values of all declared arguments, defaults filled in.

        Raises:
            Refusal: An argument that the record does not know is not at its default.
        """
        missing = self._installed[len(args) :]
        values = (*args, *[kwargs.get(name, default) for name, default in missing])
        if self._sources is None:
            return values
        for index, name, default in self._unknown:
            if values[index] != default:
                raise Refusal(
                    f"{self._name}: {name} is not known to this release of graph_quant and must be left at its default "
                    f"{default}, got {values[index]}"
                )
        return tuple(
            default if index is None else _normalize(values[index], default) for index, default in self._sources
        )


def _normalize(value: Any, default: Any) -> Any:
    """An empty list, the default of older releases, as the None that is the default now."""
    return None if default is None and isinstance(value, (list, tuple)) and not value else value
