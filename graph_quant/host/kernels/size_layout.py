"""Sizes picked, joined and reshaped: what the tensor kernel of the same type does with their places."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils._mode_utils import no_dispatch

from ...ge import KERNELS, SIZE_KERNELS, Input, Kernel, Number, Sizes, to_tensor
from .size_elements import check_count, fitted, joint_dtype

_MOVES = (
    "ConcatV2",
    "ExpandDims",
    "Gather",
    "GatherV2",
    "Identity",
    "Pack",
    "Reshape",
    "Slice",
    "Squeeze",
    "StridedSlice",
    "StridedSliceV2",
    "TensorMove",
    "Unpack",
    "Unsqueeze",
)
_MOVED = "x"

# For each output its shape, and where in the inputs, one after the other, its items stand.
Plan = tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]


def _register(op_type: str) -> None:
    tensor_kernel = KERNELS[op_type]

    def run(*args: Any, **attributes: Any) -> Any:
        given = dict(zip((declared.name for declared in tensor_kernel.inputs), args, strict=True))
        moved = given.pop(_MOVED)
        sources: list[Sizes] = [moved] if isinstance(moved, Sizes) else list(moved)
        items = tuple(item for source in sources for item in source.items)
        check_count(len(items))
        shapes = tuple(source.shape for source in sources)
        controls = tuple(_plain(value) for value in given.values())
        named = tuple((name, tuple(v) if isinstance(v, list) else v) for name, v in attributes.items())
        dtype = joint_dtype(sources)
        if any(source.dtype != dtype for source in sources):
            items = fitted(items, dtype)
        results = [
            Sizes(tuple(items[place] for place in places), sizes, dtype)
            for sizes, places in _constant_plan(op_type, shapes, controls, named)
        ]
        return results if tensor_kernel.returns_many else results[0]

    run.__name__ = run.__qualname__ = f"host_{op_type}"
    inputs = tuple(Input(each.name, True, each.is_dynamic, each.is_optional) for each in tensor_kernel.inputs)
    SIZE_KERNELS[op_type] = Kernel(
        op_type, run, inputs, tensor_kernel.attributes, tensor_kernel.returns_many, returns_sizes=True
    )


Control = tuple[tuple[Number, ...], tuple[int, ...], torch.dtype] | None


def _plain(value: Sizes | None) -> Control:
    """A shape, axis or index in numbers: where it is a symbol, the result holds for its size alone."""
    return None if value is None else (tuple(int(item) for item in value.items), value.shape, value.dtype)


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _constant_plan(*question: Any) -> Plan:
    return _plan(*question)


@functools.lru_cache(maxsize=4096)
def _plan(
    op_type: str,
    shapes: tuple[tuple[int, ...], ...],
    controls: tuple[Control, ...],
    attributes: tuple[tuple[str, Any], ...],
) -> Plan:
    kernel = KERNELS[op_type]
    with no_dispatch():
        labels = list(_labels(shapes))
        others = iter(controls)
        args = [
            (labels if declared.is_dynamic else labels[0])
            if declared.name == _MOVED
            else _control(next(others), declared)
            for declared in kernel.inputs
        ]
        result = kernel.function(*args, **dict(attributes))
        outputs = result if kernel.returns_many else [result]
        return tuple((tuple(output.shape), tuple(output.reshape(-1).tolist())) for output in outputs)


def _labels(shapes: tuple[tuple[int, ...], ...]) -> Iterator[torch.Tensor]:
    """Tensors of these shapes whose elements are numbered through."""
    first = 0
    for each in shapes:
        count = torch.Size(each).numel()
        yield torch.arange(first, first + count).reshape(each)
        first += count


def _control(value: Control, declared: Input) -> Sizes | torch.Tensor | None:
    if value is None:
        return None
    sizes = Sizes(*value)
    return sizes if declared.is_size else to_tensor(sizes)


for _type in _MOVES:
    _register(_type)
