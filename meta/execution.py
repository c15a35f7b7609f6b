"""Eager calls of CPU tensors: check the rules, then compute the reference."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from graph_quant.meta.operator import RECORDS, Operator, Result
from torch import Tensor
from torch._prims_common import make_contiguous_strides_for

_contiguous_strides = functools.lru_cache(maxsize=4096)(make_contiguous_strides_for)


def execute(name: str) -> Callable[..., Any]:
    """The CPU kernel of an operator; its record is loaded at the first call."""
    record: Operator | None = None

    def run(*args: Any, **kwargs: Any) -> Any:
        nonlocal record
        if record is None:
            record = RECORDS[name]
        return record.as_returned(results_of(record, record.bind(args, kwargs)))

    return run


def results_of(record: Operator, values: Sequence[Any]) -> list[Any]:
    """The results of one call, with the strides and aliasing of its plan."""
    return prepare(record, values)()


def prepare(record: Operator, values: Sequence[Any]) -> Callable[[], list[Any]]:
    """Check a call, and return the function that computes its results from what the tensors then hold.

    A captured call is prepared once and computed by every replay.
    """
    if record.reference is None:
        if record.rules is not None:
            record.plan(values)
        raise NotImplementedError(f"{record.title} computes nothing that the CPU could: it is for tensors on npu")
    if record.rules is None:
        record.ask_upstream(values)
        compute = record.bound(record.reference, None, values)
        return lambda: _as_list(compute())
    plan = record.plan(values)
    compute = record.bound(record.reference, plan, values)
    inputs = frozenset(_addresses(values))

    def returned(promised: Result | str | int | type[int] | None, result: Any) -> Any:
        if isinstance(promised, Result):
            return _settled(result, inputs)
        if isinstance(promised, str):
            return record.argument(promised, values)
        return int(result) if promised is int else promised

    def run() -> list[Any]:
        results = _as_list(compute())
        return [returned(promised, result) for promised, result in zip(plan.results, results, strict=True)]

    return run


def _as_list(computed: Any) -> list[Any]:
    return list(computed) if isinstance(computed, (tuple, list)) else [computed]


def _addresses(values: Iterable[Any]) -> Iterator[int]:
    """The memory of all tensors of a call."""
    for value in values:
        if isinstance(value, Tensor):
            yield value.untyped_storage().data_ptr()
        elif isinstance(value, (list, tuple)):
            yield from _addresses(value)


def _settled(result: Tensor, inputs: frozenset[int]) -> Tensor:
    """``result`` in memory that no input shares, with contiguous strides also for sizes of 0 and 1, as inferred."""
    if result.numel() and result.untyped_storage().data_ptr() in inputs:
        result = result.clone(memory_format=torch.contiguous_format)
    strides = _contiguous_strides(result.shape)
    return result if result.stride() == strides else result.contiguous().as_strided(result.shape, strides)
