"""Mutations of a valid call: one argument with another dtype, size, rank or value, or None."""

from collections.abc import Iterator
from typing import Any

import torch

from support.call_table import Call

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int8, torch.uint8, torch.int32,
          torch.int64, torch.bool)  # fmt: skip
Change = tuple[str, Any]


def changed(call: Call) -> Iterator[Call]:
    """Yield ``call`` with one argument changed; the label says which and how."""
    schema = call.overload._schema.arguments
    original = {argument.name: value for argument, value in zip(schema, call.args, strict=False)} | call.kwargs
    optional = {argument.name for argument in schema if "Optional" in str(argument.type)}
    for name, value in original.items():
        for how, other in _others(value, name in optional):
            arguments = {**original, name: other}
            args = tuple(arguments.pop(argument.name) for argument in schema[: len(call.args)])
            yield Call(call.op, f"{call.label}, {name} {how}", args, arguments, name)


def _others(value: Any, is_optional: bool) -> Iterator[Change]:
    if is_optional and value is not None:
        yield "None", None
    if isinstance(value, torch.Tensor):
        yield from _other_tensors(value)
    elif isinstance(value, (list, tuple)):
        yield from _other_lists(list(value))
    else:
        yield from _other_values(value)


def _other_lists(values: list[Any]) -> Iterator[Change]:
    if values:
        yield "shorter", values[:-1]
        yield "longer", [*values, values[-1]]
        for how, first in _others(values[0], is_optional=False):
            yield f"[0] {how}", [first, *values[1:]]


def _other_values(value: Any) -> Iterator[Change]:
    others: tuple[Any, ...] = ()
    if isinstance(value, bool):
        others = (not value,)
    elif isinstance(value, int):
        others = (-1, 0, 1, 2, 3, 7, value + 1, 2**20)
    elif isinstance(value, float):
        others = (0.0, -1.0, float("nan"), float("inf"))
    elif isinstance(value, str):
        others = ("", "nosuch")
    elif isinstance(value, torch.dtype):
        others = (*DTYPES, torch.quint4x2, torch.qint8)
    for other in others:
        if other != value:
            yield str(other), other


def _other_tensors(tensor: torch.Tensor) -> Iterator[Change]:
    for dtype in DTYPES:
        if dtype != tensor.dtype:
            yield str(dtype), tensor.to(dtype)
    yield "in a batch", tensor.unsqueeze(0)
    yield "in columns", tensor.unsqueeze(-1)
    if tensor.dim():
        yield "flat", tensor.flatten()
    if tensor.dim() > 1:
        yield "transposed", tensor.transpose(-1, -2).contiguous()
        yield "of every other element", torch.stack([tensor, tensor], -1)[..., 0]
    for dim, size in enumerate(tensor.shape):
        if size:
            yield f"longer at {dim}", torch.cat([tensor, tensor.narrow(dim, 0, 1)], dim)
            for shorter in {0, 1, size - 1} - {size}:
                yield f"of {shorter} at {dim}", tensor.narrow(dim, 0, shorter).contiguous()
