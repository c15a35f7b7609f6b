"""Defines operators of other packages from text: their schemas, and a refusal for those without a record."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, NoReturn

import torch
from graph_quant.dispatcher import infer_with

_libraries: list[torch.library.Library] = []


def read_schemas(path: Path) -> dict[str, str]:
    """Return the schemas of a file by operator: one on each line, except comments that start with ``#``."""
    lines = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    return {line.partition("(")[0]: line for line in lines if line and not line.startswith("#")}


def define_operators(path: Path) -> list[str]:
    """Define the operators of a file that no loaded library defines.

    Args:
        path: A text file with a schema on each line, such as ``my_ops::scale(Tensor x, float by=1.0) -> Tensor``. Lines
            that start with ``#`` are comments.

    Returns:
        The operators that were defined; those that exist already stay as they are.

    Examples:
        >>> define_operators(Path(__file__).with_name("schemas.txt"))
    """
    schemas = read_schemas(path)
    missing = sorted(schemas.keys() - set(torch._C._dispatch_get_all_op_names()))
    libraries = {
        namespace: torch.library.Library(namespace, "FRAGMENT")
        for namespace in {name.partition("::")[0] for name in missing}
    }
    for name in missing:
        namespace, _, schema = schemas[name].partition("::")
        libraries[namespace].define(schema)
    _libraries.extend(libraries.values())
    return missing


def refuse_names(operators: Collection[str], source: str) -> None:
    """Refuse every call of operators that have no record, by name.

    Args:
        operators: The operators.
        source: The compiled extension that implements them.
    """
    libraries = {
        namespace: torch.library.Library(namespace, "IMPL")
        for namespace in {name.partition("::")[0] for name in operators}
    }
    for name in sorted(operators):
        library, refuse = libraries[name.partition("::")[0]], _refusal(name, source)
        library.impl(name, refuse, "CompositeExplicitAutograd")  # also for operators that take no tensor
        infer_with(library, name, refuse)
    _libraries.extend(libraries.values())


def _refusal(name: str, source: str) -> Callable[..., Any]:
    def refuse(*_args: Any, **_kwargs: Any) -> NoReturn:
        raise NotImplementedError(
            f"{name} cannot run on the host NPU: it has no reference in graph_quant; {source}, which implements it, "
            "needs an NPU with CANN"
        )

    return refuse
