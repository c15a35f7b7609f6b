"""The state that a function keeps in modules: put back between runs, and left as it was found."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..compare.metrics import compare
from .observe import on_host

_DICTIONARIES = ("_parameters", "_buffers", "_modules")


@dataclass(frozen=True)
class _Attributes:
    module: nn.Module
    all: dict[str, Any]
    dictionaries: dict[str, dict[str, Any]]


class State:
    """The parameters, buffers and attributes of all modules that ``fn`` is or reaches, as they are now."""

    def __init__(self, fn: Any) -> None:
        self._roots = roots = reached(fn)
        modules = {id(each): each for root in roots for each in root.modules()}
        self._attributes = [
            _Attributes(each, dict(vars(each)), {name: dict(vars(each)[name]) for name in _DICTIONARIES})
            for each in modules.values()
        ]
        self._values = {name: (tensor, tensor.detach().clone()) for name, tensor in _tensors(roots)}

    def restore(self) -> None:
        """Put everything back."""
        for each in self._attributes:
            vars(each.module).clear()
            vars(each.module).update(each.all)
            for name, content in each.dictionaries.items():
                held = vars(each.module)[name]
                held.clear()
                held.update(content)
        with torch.no_grad():
            for tensor, value in self._values.values():
                if not same(tensor, value):
                    tensor.copy_(value)

    def changed(self) -> dict[str, Tensor]:
        """What is not as it was, by its name: copies."""
        now = dict(_tensors(self._roots))
        known = {name: value for name, (_, value) in self._values.items()}
        return {
            name: tensor.detach().clone()
            for name, tensor in now.items()
            if name not in known or not same(tensor, known[name])
        }

    def pairs(self, one: dict[str, Tensor], other: dict[str, Tensor]) -> dict[str, tuple[Any, Any]]:
        """What one of two runs changed, as both left it; None for what a run did not make."""
        before = {name: value for name, (_, value) in self._values.items()}
        return {name: (one.get(name, before.get(name)), other.get(name, before.get(name))) for name in {**one, **other}}


def reached(fn: Any) -> list[nn.Module]:
    """The module that ``fn`` is, whose method it is, or that it finds in its closure, its globals or what it binds."""
    return list({id(each): each for each in _reached(fn)}.values())


def _reached(fn: Any) -> Iterator[nn.Module]:
    if isinstance(fn, nn.Module):
        yield fn
    if isinstance(fn, functools.partial):
        for each in (fn.func, *fn.args, *fn.keywords.values()):
            yield from _reached(each)
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


def same(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors hold the same bits."""
    return compare(on_host(one), on_host(other)).equal
