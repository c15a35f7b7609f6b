"""Slicing, concatenation and reshaping of sizes.

The tensor kernel of the same type runs once on the indices of the elements; the result says which element goes where.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils._mode_utils import no_dispatch

from ...ge import KERNELS, SIZE_KERNELS, Input, Kernel, Number, Sizes, to_tensor
from .size_elements import cast_items, check_count, promote_dtypes

_OP_TYPES = (
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
_DATA_INPUT = "x"

# For each output, its shape and the indices of its items in the concatenated inputs.
IndexMap = tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]


def _register(op_type: str) -> None:
    tensor_kernel = KERNELS[op_type]

    def run(*args: Any, **attributes: Any) -> Any:
        values = dict(zip((declared.name for declared in tensor_kernel.inputs), args, strict=True))
        data = values.pop(_DATA_INPUT)
        sources: list[Sizes] = [data] if isinstance(data, Sizes) else list(data)
        items = tuple(item for source in sources for item in source.items)
        check_count(len(items))
        shapes = tuple(source.shape for source in sources)
        controls = tuple(_static_value(value) for value in values.values())
        named = tuple((name, tuple(v) if isinstance(v, list) else v) for name, v in attributes.items())
        dtype = promote_dtypes(sources)
        if any(source.dtype != dtype for source in sources):
            items = cast_items(items, dtype)
        results = [
            Sizes(tuple(items[index] for index in indices), sizes, dtype)
            for sizes, indices in _constant_index_map(op_type, shapes, controls, named)
        ]
        return results if tensor_kernel.returns_many else results[0]

    run.__name__ = run.__qualname__ = f"host_{op_type}"
    inputs = tuple(
        Input(declared.name, True, declared.is_dynamic, declared.is_optional) for declared in tensor_kernel.inputs
    )
    SIZE_KERNELS[op_type] = Kernel(
        op_type, run, inputs, tensor_kernel.attributes, tensor_kernel.returns_many, returns_sizes=True
    )


Control = tuple[tuple[Number, ...], tuple[int, ...], torch.dtype] | None


def _static_value(value: Sizes | None) -> Control:
    """Return a shape, axis or index as numbers; a symbolic one specialises the result to its value."""
    return None if value is None else (tuple(int(item) for item in value.items), value.shape, value.dtype)


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _constant_index_map(*key: Any) -> IndexMap:
    return _index_map(*key)


@functools.lru_cache(maxsize=4096)
def _index_map(
    op_type: str,
    shapes: tuple[tuple[int, ...], ...],
    controls: tuple[Control, ...],
    attributes: tuple[tuple[str, Any], ...],
) -> IndexMap:
    kernel = KERNELS[op_type]
    with no_dispatch():
        indices = list(_element_indices(shapes))
        others = iter(controls)
        args = [
            (indices if declared.is_dynamic else indices[0])
            if declared.name == _DATA_INPUT
            else _control(next(others), declared)
            for declared in kernel.inputs
        ]
        result = kernel.function(*args, **dict(attributes))
        outputs = result if kernel.returns_many else [result]
        return tuple((tuple(output.shape), tuple(output.reshape(-1).tolist())) for output in outputs)


def _element_indices(shapes: tuple[tuple[int, ...], ...]) -> Iterator[torch.Tensor]:
    """Yield tensors of these shapes whose elements are their indices in the concatenated inputs."""
    first = 0
    for shape in shapes:
        count = torch.Size(shape).numel()
        yield torch.arange(first, first + count).reshape(shape)
        first += count


def _control(value: Control, declared: Input) -> Sizes | torch.Tensor | None:
    if value is None:
        return None
    sizes = Sizes(*value)
    return sizes if declared.is_size else to_tensor(sizes)


for _type in _OP_TYPES:
    _register(_type)
