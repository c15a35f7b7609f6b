"""Size kernels give what torch gives for tensors: every rank, every integer dtype, every type that has one."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from graph_quant.ge.values import Sizes, list_of_sizes, one_size, to_sizes, to_tensor
from graph_quant.host.kernels import KERNELS, SIZE_KERNELS

INTEGERS = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)
GE_NUMBERS = {torch.int8: 2, torch.uint8: 4, torch.int16: 6, torch.int32: 3, torch.int64: 9, torch.bool: 12}
CASES = 60

Arguments = tuple[list[Any], dict[str, Any], torch.Tensor | list[torch.Tensor]]


def shape(chance: random.Random, least: int = 0) -> tuple[int, ...]:
    return tuple(chance.choice((1, 2, 2, 3, 0) if at else (1, 2, 3)) for at in range(chance.randint(least, 3)))


def tensor(chance: random.Random, dtype: torch.dtype, size: tuple[int, ...]) -> torch.Tensor:
    limits = torch.iinfo(dtype)
    extremes = (limits.min, limits.max, limits.max - 1, 0, 1, 2)
    near = (max(limits.min, -9), 9)
    numbers = [
        chance.choice(extremes) if chance.random() < 0.2 else chance.randint(*near)
        for _ in range(torch.Size(size).numel())
    ]
    return torch.tensor(numbers, dtype=dtype).reshape(size)


def host(values: Any, dtype: torch.dtype = torch.int64) -> Sizes:
    return to_sizes(values if isinstance(values, torch.Tensor) else torch.tensor(values, dtype=dtype))


def pair(chance: random.Random, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Two tensors that broadcast."""
    whole = shape(chance)
    parts = []
    for _ in range(2):
        kept = whole[chance.randint(0, len(whole)) :]
        parts.append(tensor(chance, dtype, tuple(1 if chance.random() < 0.3 else size for size in kept)))
    return parts[0], parts[1]


def _binary(function: Callable[[Any, Any], Any], divides: bool = False, positive: bool = False) -> Callable[..., Any]:
    def make(chance: random.Random, dtype: torch.dtype) -> Arguments:
        x1, x2 = pair(chance, dtype)
        if divides:
            x2 = torch.where(x2 == 0, torch.tensor(3, dtype=dtype), x2)
            # The smallest number over -1 is undefined in C++, and stops a process.
            x2 = torch.where(x2 == -1, torch.tensor(-3 if dtype.is_signed else 3, dtype=dtype), x2)
        if positive:
            x2 = (x2.to(torch.int64).abs() % 7).to(dtype)
        return [host(x1), host(x2)], {}, function(x1, x2)

    return make


def _axis(chance: random.Random, rank: int) -> int:
    return chance.randint(-max(rank, 1), max(rank, 1) - 1)


def _unary(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[..., Any]:
    def make(chance: random.Random, dtype: torch.dtype) -> Arguments:
        x = tensor(chance, dtype, shape(chance))
        return [host(x)], {}, function(x)

    return make


def _cast(chance: random.Random, dtype: torch.dtype) -> Arguments:
    x, wanted = tensor(chance, dtype, shape(chance)), chance.choice(list(GE_NUMBERS))
    return [host(x)], {"dst_type": GE_NUMBERS[wanted]}, x.to(wanted)


def _reduction(function: Callable[..., torch.Tensor]) -> Callable[..., Any]:
    def make(chance: random.Random, dtype: torch.dtype) -> Arguments:
        x = tensor(chance, dtype, shape(chance))
        axes = chance.sample(range(x.dim()), chance.randint(0, x.dim()))
        signed = [axis - chance.choice((0, x.dim())) for axis in axes]
        keep = chance.random() < 0.5
        expected = x
        for axis in sorted(axes or range(x.dim()), reverse=True):
            expected = function(expected, axis, keepdim=keep, dtype=dtype)
        return [host(x), host(signed)], {"keep_dims": keep}, expected

    return make


def _reduction_by_attribute(function: Callable[..., torch.Tensor]) -> Callable[..., Any]:
    def make(chance: random.Random, dtype: torch.dtype) -> Arguments:
        (x, axes), attributes, expected = _reduction(function)(chance, dtype)
        return [x], {"axes": list(axes.items), **attributes}, expected

    return make


def _select(chance: random.Random, dtype: torch.dtype) -> Arguments:
    then, otherwise = pair(chance, dtype)
    sizes = torch.broadcast_shapes(then.shape, otherwise.shape)
    condition = tensor(chance, torch.int8, tuple(sizes)) > 0
    if chance.random() < 0.5:
        condition = torch.full([1] * chance.randint(0, condition.dim()), chance.random() < 0.5)
    return [host(condition), host(then), host(otherwise)], {}, torch.where(condition, then, otherwise)


def _gather(chance: random.Random, dtype: torch.dtype) -> Arguments:
    x = tensor(chance, dtype, shape(chance, 1))
    picks = torch.randint(0, x.size(0), shape(chance))
    return [host(x), host(picks)], {}, x[picks]


def _gather_axis(chance: random.Random, dtype: torch.dtype) -> Arguments:
    x = tensor(chance, dtype, tuple(size or 1 for size in shape(chance, 1)))
    axis = _axis(chance, x.dim())
    picks = torch.randint(0, x.size(axis), shape(chance))
    whole = axis % x.dim()
    expected = x[(slice(None),) * whole + (picks,)]
    return [host(x), host(picks), host(axis)], {}, expected


def _pack(chance: random.Random, dtype: torch.dtype) -> Arguments:
    size = shape(chance)
    parts = [tensor(chance, dtype, size) for _ in range(chance.randint(1, 3))]
    axis = chance.randint(-len(size) - 1, len(size))
    return [[host(part) for part in parts]], {"axis": axis}, torch.stack(parts, axis)


def _concat(chance: random.Random, dtype: torch.dtype) -> Arguments:
    size = list(shape(chance, 1))
    axis = _axis(chance, len(size))
    parts = []
    for _ in range(chance.randint(1, 3)):
        size[axis] = chance.randint(0, 3)
        parts.append(tensor(chance, dtype, tuple(size)))
    return [[host(part) for part in parts], host(axis)], {}, torch.cat(parts, axis)


def _unpack(chance: random.Random, dtype: torch.dtype) -> Arguments:
    x = tensor(chance, dtype, shape(chance, 1))
    axis = _axis(chance, x.dim())
    return [host(x)], {"num": x.size(axis), "axis": axis}, list(x.unbind(axis))


def _slice(chance: random.Random, dtype: torch.dtype) -> Arguments:
    x = tensor(chance, dtype, shape(chance, 1))
    first = [chance.randint(0, size) for size in x.shape]
    count = [chance.choice((-1, chance.randint(0, size - at))) for at, size in zip(first, x.shape, strict=True)]
    ends = [size if n == -1 else at + n for at, n, size in zip(first, count, x.shape, strict=True)]
    return [host(x), host(first), host(count)], {}, x[tuple(itertools.starmap(slice, zip(first, ends, strict=True)))]


def _strided(chance: random.Random, dtype: torch.dtype) -> Arguments:
    x = tensor(chance, dtype, tuple(size or 1 for size in shape(chance, 1)))
    first = [chance.randint(-size, size - 1) for size in x.shape]
    last = [chance.randint(-size, size) for size in x.shape]
    step = [chance.choice((1, 1, 2)) for _ in x.shape]
    masks = {name: chance.randint(0, 7) for name in ("begin_mask", "end_mask", "shrink_axis_mask")}
    index = tuple(
        first[at]
        if masks["shrink_axis_mask"] >> at & 1
        else slice(
            None if masks["begin_mask"] >> at & 1 else first[at],
            None if masks["end_mask"] >> at & 1 else last[at],
            step[at],
        )
        for at in range(x.dim())
    )
    return [host(x), host(first), host(last), host(step)], masks, x[index]


def _strided_axes(chance: random.Random, dtype: torch.dtype) -> Arguments:
    x = tensor(chance, dtype, shape(chance, 1))
    axis = _axis(chance, x.dim())
    first, last, step = chance.randint(0, 3), chance.randint(0, 3), chance.choice((1, 2))
    expected = x[(slice(None),) * (axis % x.dim()) + (slice(first, last, step),)]
    return [host(x), host([first]), host([last]), host([axis]), host([step])], {}, expected


def _squeeze(chance: random.Random, dtype: torch.dtype) -> Arguments:
    x = tensor(chance, dtype, shape(chance))
    ones = [axis for axis in range(x.dim()) if x.size(axis) == 1]
    axes = chance.sample(ones, chance.randint(0, len(ones)))
    return [host(x)], {"axis": axes}, x.squeeze(tuple(axes)) if axes else x.squeeze()


def _unsqueeze(chance: random.Random, dtype: torch.dtype) -> Arguments:
    x = tensor(chance, dtype, shape(chance))
    axis = chance.randint(-x.dim() - 1, x.dim())
    return [host(x)], {"axes": [axis]}, x.unsqueeze(axis)


def _expand_dims(chance: random.Random, dtype: torch.dtype) -> Arguments:
    (x,), attributes, expected = _unsqueeze(chance, dtype)
    return [x, host(attributes["axes"][0])], {}, expected


def _reshape(chance: random.Random, dtype: torch.dtype) -> Arguments:
    x = tensor(chance, dtype, tuple(size or 1 for size in shape(chance)))
    sizes = list(x.shape)
    chance.shuffle(sizes)
    if sizes and chance.random() < 0.5:
        sizes[chance.randrange(len(sizes))] = -1
    return [host(x), host(sizes)], {}, x.reshape(sizes)


MAKERS: dict[str, Callable[[random.Random, torch.dtype], Arguments]] = {
    "Add": _binary(torch.add),
    "Sub": _binary(torch.sub),
    "Mul": _binary(torch.mul),
    "Div": _binary(lambda a, b: torch.div(a, b, rounding_mode="trunc"), divides=True),
    "RealDiv": _binary(lambda a, b: torch.div(a, b, rounding_mode="trunc"), divides=True),
    "TruncateDiv": _binary(lambda a, b: torch.div(a, b, rounding_mode="trunc"), divides=True),
    "FloorDiv": _binary(torch.floor_divide, divides=True),
    "FloorMod": _binary(torch.remainder, divides=True),
    "Mod": _binary(torch.fmod, divides=True),
    "Pow": _binary(torch.pow, positive=True),
    "Maximum": _binary(torch.maximum),
    "Minimum": _binary(torch.minimum),
    "Equal": _binary(torch.eq),
    "NotEqual": _binary(torch.ne),
    "Less": _binary(torch.lt),
    "LessEqual": _binary(torch.le),
    "Greater": _binary(torch.gt),
    "GreaterEqual": _binary(torch.ge),
    "Cast": _cast,
    "Neg": _unary(torch.neg),
    "Floor": _unary(torch.floor),
    "Ceil": _unary(torch.ceil),
    "Identity": _unary(torch.clone),
    "TensorMove": _unary(torch.clone),
    "Gather": _gather,
    "GatherV2": _gather_axis,
    "Pack": _pack,
    "ConcatV2": _concat,
    "Unpack": _unpack,
    "Slice": _slice,
    "StridedSlice": _strided,
    "StridedSliceV2": _strided_axes,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "ExpandDims": _expand_dims,
    "Reshape": _reshape,
    "ReduceProd": _reduction(torch.prod),
    "ReduceProdD": _reduction_by_attribute(torch.prod),
    "ReduceSum": _reduction(torch.sum),
    "SelectV2": _select,
}


def test_every_size_kernel_has_samples() -> None:
    assert set(MAKERS) == set(SIZE_KERNELS)


@pytest.mark.parametrize("op_type", sorted(SIZE_KERNELS))
def test_a_size_kernel_has_the_signature_of_the_tensor_kernel(op_type: str) -> None:
    size_kernel, tensor_kernel = SIZE_KERNELS[op_type], KERNELS[op_type]
    assert [declared.name for declared in size_kernel.inputs] == [declared.name for declared in tensor_kernel.inputs]
    assert {name for name, _ in size_kernel.attributes} == {name for name, _ in tensor_kernel.attributes}
    assert all(declared.is_size for declared in size_kernel.inputs)
    assert size_kernel.returns_sizes


@pytest.mark.parametrize("op_type", sorted(SIZE_KERNELS))
def test_a_size_kernel_agrees_with_torch(op_type: str) -> None:
    chance = random.Random(op_type)
    for _ in range(CASES):
        arguments, attributes, expected = MAKERS[op_type](chance, chance.choice(INTEGERS))
        results = SIZE_KERNELS[op_type].function(*arguments, **attributes)
        several = [results] if isinstance(results, Sizes) else results
        wanted = [expected] if isinstance(expected, torch.Tensor) else expected
        assert len(several) == len(wanted)
        for result, one in zip(several, wanted, strict=True):
            assert (result.shape, result.dtype) == (tuple(one.shape), one.dtype), (arguments, attributes)
            assert list(result.items) == one.reshape(-1).tolist(), (arguments, attributes)
            assert torch.equal(to_tensor(result), one)


def test_floats_are_rounded_to_their_dtype() -> None:
    """float32(0.7) * 10 is 7 in float32; in float64 it is less, and rounds down to 6."""
    seven = SIZE_KERNELS["Mul"].function(one_size(10.0, torch.float32), host(torch.tensor(0.7)))
    assert seven.items == (7.0,)
    assert SIZE_KERNELS["Floor"].function(seven) == Sizes((7.0,), (), torch.float32)
    as_float = SIZE_KERNELS["Cast"].function(list_of_sizes([3]), dst_type=0)
    assert as_float == Sizes((3.0,), (1,), torch.float32)
    assert SIZE_KERNELS["RealDiv"].function(as_float, one_size(2.0, torch.float32)).items == (1.5,)
    assert SIZE_KERNELS["Cast"].function(Sizes((2.9,), (), torch.float32), dst_type=9).items == (2,)


def test_powers_and_concatenations_are_bounded() -> None:
    huge = one_size(3, torch.int64)
    for _ in range(40):
        huge = SIZE_KERNELS["Pow"].function(huge, huge)
    joined, axis = list_of_sizes([1, 2] * 10_000), one_size(0, torch.int64)
    with pytest.raises(ValueError, match="more than the host keeps"):
        SIZE_KERNELS["ConcatV2"].function([joined, joined], axis)
