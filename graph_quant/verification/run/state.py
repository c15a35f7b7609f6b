"""The state that a function keeps in modules: saved, and restored between runs."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..compare.metrics import compare
from .intermediates import to_host

_DICTIONARIES = ("_parameters", "_buffers", "_modules")


@dataclass(frozen=True)
class _Attributes:
    module: nn.Module
    all: dict[str, Any]
    dictionaries: dict[str, dict[str, Any]]


class State:
    """A snapshot of the parameters, buffers and attributes of all modules that ``fn`` is or refers to."""

    def __init__(self, fn: Any) -> None:
        self._roots = roots = find_modules(fn)
        modules = {id(module): module for root in roots for module in root.modules()}
        self._attributes = [
            _Attributes(module, dict(vars(module)), {name: dict(vars(module)[name]) for name in _DICTIONARIES})
            for module in modules.values()
        ]
        self._values = {name: (tensor, tensor.detach().clone()) for name, tensor in _tensors(roots)}

    def restore(self) -> None:
        """Restore the snapshot."""
        for attributes in self._attributes:
            current = vars(attributes.module)
            current.clear()
            current.update(attributes.all)
            for name, content in attributes.dictionaries.items():
                current[name].clear()
                current[name].update(content)
        with torch.no_grad():
            for tensor, value in self._values.values():
                if not have_same_bits(tensor, value):
                    tensor.copy_(value)

    def changed(self) -> dict[str, Tensor]:
        """Copies of the tensors that differ from the snapshot, by name."""
        now = dict(_tensors(self._roots))
        known = {name: value for name, (_, value) in self._values.items()}
        return {
            name: tensor.detach().clone()
            for name, tensor in now.items()
            if name not in known or not have_same_bits(tensor, known[name])
        }

    def pairs(self, one: dict[str, Tensor], other: dict[str, Tensor]) -> dict[str, tuple[Any, Any]]:
        """The tensors that either of two runs changed, after each run; None for one that a run did not create."""
        before = {name: value for name, (_, value) in self._values.items()}
        return {name: (one.get(name, before.get(name)), other.get(name, before.get(name))) for name in {**one, **other}}


def find_modules(fn: Any) -> list[nn.Module]:
    """The modules that ``fn`` is, is a method of, binds as a partial, or refers to by closure or globals."""
    return list({id(module): module for module in _iterate_modules(fn)}.values())


def _iterate_modules(fn: Any) -> Iterator[nn.Module]:
    if isinstance(fn, nn.Module):
        yield fn
    if isinstance(fn, functools.partial):
        for part in (fn.func, *fn.args, *fn.keywords.values()):
            yield from _iterate_modules(part)
    owner = getattr(fn, "__self__", None)
    if isinstance(owner, nn.Module):
        yield owner
    code = getattr(fn, "__code__", None)
    if code is None:
        return
    known = getattr(fn, "__globals__", {})
    cells = (cell.cell_contents for cell in getattr(fn, "__closure__", None) or () if _is_filled(cell))
    for value in (*cells, *(known[name] for name in code.co_names if name in known)):
        if isinstance(value, nn.Module):
            yield value


def _tensors(roots: Sequence[nn.Module]) -> Iterator[tuple[str, Tensor]]:
    seen: set[int] = set()
    for number, root in enumerate(roots):
        prefix = "" if len(roots) == 1 else f"{type(root).__name__}_{number}."
        for name, tensor in (*root.named_parameters(), *root.named_buffers()):
            if id(tensor) not in seen:
                seen.add(id(tensor))
                yield prefix + name, tensor


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def have_same_bits(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors hold the same bits."""
    return compare(to_host(one), to_host(other)).equal
