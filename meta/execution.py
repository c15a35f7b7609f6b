"""Eager calls of CPU tensors: check the rules, then compute the reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from graph_quant.meta.operator import RECORDS, Operator, Result
from torch import Tensor
from torch._prims_common import make_contiguous_strides_for


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
    if record.reference is None:
        if record.rules is not None:
            record.plan(values)
        raise NotImplementedError(f"{record.title} computes nothing that the CPU could: it is for tensors on npu")
    plan = None
    if record.rules is None:
        _ask_upstream(record, values)
    else:
        plan = record.plan(values)
    computed = record.call(record.reference, plan, values)
    results = list(computed) if isinstance(computed, (tuple, list)) else [computed]
    if plan is None:
        return results
    inputs = {tensor.untyped_storage().data_ptr() for tensor in record.tensors(values).values()}

    def returned(promised: Result | str | int | type[int] | None, result: Any) -> Any:
        if promised is int:
            return int(result)
        if isinstance(promised, str):
            return record.argument(promised, values)
        return _settled(result, inputs) if isinstance(promised, Result) else promised

    return [returned(promised, result) for promised, result in zip(plan.results, results, strict=True)]


def _ask_upstream(record: Operator, values: Sequence[Any]) -> None:
    """Check the call of an operator without rules by torch_npu's own meta function."""
    shapes = [_without_values(value) for value in values]
    named = zip(record.arguments, shapes, strict=True)
    record.overload(**{name: value for name, value in named if name in record.installed_arguments})


def _without_values(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_without_values(item) for item in value]
    return value.to("meta") if isinstance(value, Tensor) else value


def _settled(result: Tensor, inputs: set[int]) -> Tensor:
    """``result`` in memory that no input shares, with contiguous strides also for sizes of 0 and 1, as inferred."""
    if result.numel() and result.untyped_storage().data_ptr() in inputs:
        result = result.clone(memory_format=torch.contiguous_format)
    strides = make_contiguous_strides_for(result.shape)
    return result if result.stride() == strides else result.contiguous().as_strided(result.shape, strides)
