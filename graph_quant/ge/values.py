"""What stands in torch for GE's values: a dtype for each of its own, and numbers where a graph computes sizes.

Dtypes are decided here and nowhere else. Where torch has no such type:

* int4: ``torch.int8``, one element each, in [-8, 7]. Packing happens in Bitcast alone;
* uint64: ``torch.uint64``, with the bits that GE gives it;
* qint8, quint8, qint32: the plain integers that they store;
* hifloat8: ``torch.uint8``, its bits.

A graph with dynamic shapes computes sizes with the same operators as data. Sizes are kept as Python or symbolic
integers, because those can be traced; they become tensors only where an operator uses them as data. A node whose inputs
are all sizes has a kernel of its own. ``choose_kernel`` picks the kernel for the engine and the inference of dumps;
``find_unsupported`` lists the inputs and attributes that a kernel would ignore.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from . import dtypes
from .kernels import CONSTANT_KERNELS, KERNELS, SIZE_KERNELS, Kernel, facts

if TYPE_CHECKING:
    from .graph import Node

_ALIKE = (
    "float32", "float16", "bfloat16", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
    "uint64", "bool", "complex32", "complex64", "complex128", "float8_e5m2", "float8_e4m3fn",
)  # fmt: skip
_STORED: dict[str, torch.dtype] = {
    **{word: getattr(torch, word) for word in _ALIKE},
    "int4": torch.int8,
    "qint8": torch.int8,
    "quint8": torch.uint8,
    "qint32": torch.int32,
    "hifloat8": torch.uint8,
    "float8_e8m0": torch.float8_e8m0fnu,
}
_WORDS = {_STORED[word]: word for word in (*_ALIKE, "float8_e8m0")}


def from_attr(number: int) -> torch.dtype:
    """The torch dtype for a ``ge::DataType`` number, as attributes carry it."""
    dtype = _STORED.get(dtypes.OF_ATTRIBUTE.get(number, ""))
    if dtype is None:
        raise TypeError(f"the engine has no type for ge::DataType {number}")
    return dtype


def from_desc(number: int) -> torch.dtype:
    """The torch dtype for a proto number, as descs and constants carry it."""
    dtype = _STORED.get(dtypes.OF_DESC.get(number, ""))
    if dtype is None:
        raise TypeError(f"the engine has no type for the proto data type {number}")
    return dtype


def ge_dtype_name(dtype: torch.dtype) -> str:
    """GE's word for a torch dtype."""
    return _WORDS.get(dtype, str(dtype).removeprefix("torch."))


def decode_tensor(tensor: Any) -> torch.Tensor:
    """A TensorDef as a torch tensor. One that claims other elements than it carries is refused."""
    dtype = from_desc(tensor.desc.dtype)
    shape = tuple(tensor.desc.shape.dim)
    count = math.prod(shape)
    if min(shape, default=0) < 0 or len(tensor.data) != count * dtype.itemsize:
        name = str(dtype).removeprefix("torch.")
        raise ValueError(f"a tensor claims to be {name}{list(shape)} and carries {len(tensor.data)} bytes")
    if not count:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(bytearray(tensor.data), dtype=dtype).reshape(shape)


Number = int | float | bool


class Sizes(NamedTuple):
    """A small tensor held as Python (or symbolic) numbers in row-major order."""

    items: tuple[Number, ...]
    shape: tuple[int, ...]
    dtype: torch.dtype

    @property
    def ints(self) -> tuple[int, ...]:
        """The items where they are sizes, axes or indices."""
        return self.items  # type: ignore[return-value]

    @property
    def scalar(self) -> Number:
        """The only item."""
        return self.items[0]


def one_size(item: Number, dtype: torch.dtype) -> Sizes:
    """A value of rank 0."""
    return Sizes((item,), (), dtype)


def list_of_sizes(items: Sequence[Number], dtype: torch.dtype = torch.int64) -> Sizes:
    """A value of rank 1."""
    return Sizes(tuple(items), (len(items),), dtype)


def sizes_from_input(value: Number | Sequence[Number], dtype: torch.dtype) -> Sizes:
    """A graph input that is a size or a list of sizes."""
    if isinstance(value, (tuple, list)):
        return list_of_sizes(value, dtype)
    return one_size(value, dtype)  # type: ignore[arg-type]


def to_tensor(value: Sizes) -> torch.Tensor:
    """The tensor, where an operator uses the value as data."""
    numbers = list(value.items)
    if len(numbers) == 1 and not value.shape:
        return torch.scalar_tensor(numbers[0], dtype=value.dtype)
    if any(isinstance(number, (torch.SymInt, torch.SymFloat, torch.SymBool)) for number in numbers):
        flat = torch.stack([torch.scalar_tensor(number, dtype=value.dtype) for number in numbers])
    else:
        flat = torch.tensor(numbers, dtype=value.dtype)
    return flat.reshape(value.shape)


def to_sizes(tensor: torch.Tensor) -> Sizes:
    """The numbers of a tensor, where an operator needs data as a size, an axis or an index."""
    shape = tuple(tensor.shape)
    if tensor.numel() == 0:
        return Sizes((), shape, tensor.dtype)
    flat = tensor.reshape(-1)
    if type(tensor) is torch.Tensor and not torch.compiler.is_dynamo_compiling():
        return Sizes(tuple(flat.tolist()), shape, tensor.dtype)
    return Sizes(tuple(flat[i].item() for i in range(math.prod(shape))), shape, tensor.dtype)


# Longer constants are data, never sizes.
LONGEST_SIZES = 64


class InputState(NamedTuple):
    """What an input is fed: whether its numbers are known as sizes are, and its rank where it is a constant."""

    is_size: bool
    constant_rank: int | None = None


def choose_kernel(op_type: str, fed: Mapping[str, InputState]) -> Kernel | None:
    """The kernel for a node: the size kernel where all inputs are sizes; None where the type has no kernel.

    Where all inputs are constants, the tensor kernel is used: they may be data. ``is_constant_folded`` says where the
    result of such a node may be used as a size.
    """
    kernel = KERNELS.get(op_type)
    on_sizes = SIZE_KERNELS.get(op_type)
    if (
        on_sizes is not None
        and fed
        and all(each.is_size for each in fed.values())
        and not is_constant_folded(op_type, fed)
    ):
        return on_sizes
    special = CONSTANT_KERNELS.get(op_type)
    if special is not None:
        wanted = [fed.get(declared.name) for declared in special.inputs if declared.is_size]
        if all(each is not None and each.constant_rank == 0 for each in wanted):
            return special
    return kernel


def is_constant_folded(op_type: str, fed: Mapping[str, InputState]) -> bool:
    """Whether a node computes a constant that may be, or lead to, a size."""
    constants = (each.is_size and each.constant_rank is not None for each in fed.values())
    return SIZE_KERNELS.get(op_type) is not None and bool(fed) and all(constants)


def find_unsupported(node: Node, kernel: Kernel) -> list[str]:
    """What a node is given that ``kernel`` neither takes nor may pass over: inputs, attributes with their values."""
    known = facts(node.type)
    taken = {*known.idle, *(name for name, _ in kernel.attributes)}
    found = [name for name in node.fed if name not in known.idle and not _is_taken(name, kernel)]
    others = [
        name for name in node.proto.attr if name in known.only or (name not in taken and not name.startswith("_"))
    ]
    if others:
        from .attributes import find_non_default

        found += find_non_default(node.proto, others, known.only)
    return found


def _is_taken(name: str, kernel: Kernel) -> bool:
    return any(
        name == each.name or (each.is_dynamic and name.startswith(each.name) and name[len(each.name) :].isdigit())
        for each in kernel.inputs
    )
