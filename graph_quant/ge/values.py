"""The representation of GE values in torch: a torch dtype for each GE dtype, and numbers for computed sizes.

This module alone decides on dtypes. Where torch has no such type:

* int4: ``torch.int8``, one value per element, in [-8, 7]. Packing happens in Bitcast alone;
* uint64: ``torch.uint64``, with the same bits as in GE;
* qint8, quint8, qint32: the plain integers that they store;
* hifloat8: ``torch.uint8``, its bits;
* float4: one code in each element of a dtype of torch that GE does not have, so that a Bitcast knows what to pack.

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

_STORED: dict[str, torch.dtype] = {
    **{word: getattr(torch, word) for word in dtypes.ALIKE_IN_TORCH},
    "int4": torch.int8,
    "qint8": torch.int8,
    "quint8": torch.uint8,
    "qint32": torch.int32,
    "hifloat8": torch.uint8,
    "float8_e8m0": torch.float8_e8m0fnu,
    "float4_e2m1": torch.float8_e4m3fnuz,
    "float4_e1m2": torch.float8_e5m2fnuz,
}
_WORDS = {_STORED[word]: word for word in (*dtypes.ALIKE_IN_TORCH, "float8_e8m0", "float4_e2m1", "float4_e1m2")}
# The dtypes that carry four bits in each element.
FOUR_BITS = (_STORED["float4_e2m1"], _STORED["float4_e1m2"])


def stored_dtype(name: str) -> torch.dtype:
    """The torch dtype that carries a dtype of GE's."""
    return _STORED[name]


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
    """The GE name of a torch dtype."""
    return _WORDS.get(dtype, str(dtype).removeprefix("torch."))


def decode_tensor(tensor: Any) -> torch.Tensor:
    """Decode a TensorDef to a torch tensor; refuse one whose shape does not match its data."""
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
    """A small tensor as Python (or symbolic) numbers in row-major order."""

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


# Longer constants are treated as data, not as sizes.
LONGEST_SIZES = 64


class InputState(NamedTuple):
    """The input of a node: whether its values are known numbers, and its rank where it is a constant."""

    is_size: bool
    constant_rank: int | None = None


def choose_kernel(op_type: str, inputs: Mapping[str, InputState]) -> Kernel | None:
    """The kernel for a node: the size kernel where all inputs are sizes; None where the type has no kernel.

    Where all inputs are constants, the tensor kernel is used: they may be data. ``is_constant_folded`` says where the
    result of such a node may be used as a size.
    """
    kernel = KERNELS.get(op_type)
    on_sizes = SIZE_KERNELS.get(op_type)
    if (
        on_sizes is not None
        and inputs
        and all(state.is_size for state in inputs.values())
        and not is_constant_folded(op_type, inputs)
    ):
        return on_sizes
    special = CONSTANT_KERNELS.get(op_type)
    if special is not None:
        scalars = [inputs.get(declared.name) for declared in special.inputs if declared.is_size]
        if all(state is not None and state.constant_rank == 0 for state in scalars):
            return special
    return kernel


def is_constant_folded(op_type: str, inputs: Mapping[str, InputState]) -> bool:
    """Whether all inputs of a node are constants, and its result may be used as a size."""
    constants = (state.is_size and state.constant_rank is not None for state in inputs.values())
    return SIZE_KERNELS.get(op_type) is not None and bool(inputs) and all(constants)


def find_unsupported(node: Node, kernel: Kernel) -> list[str]:
    """The inputs and attributes of a node that ``kernel`` neither takes nor may ignore; attributes with values."""
    known = facts(node.type)
    taken = {*known.idle, *(name for name, _ in kernel.attributes)}
    ignored = [name for name in node.fed if name not in known.idle and not _is_taken(name, kernel)]
    others = [
        name for name in node.proto.attr if name in known.only or (name not in taken and not name.startswith("_"))
    ]
    if others:
        from .attributes import find_non_default

        ignored += find_non_default(node.proto, others, known.only)
    return ignored


def _is_taken(name: str, kernel: Kernel) -> bool:
    return any(
        name == declared.name
        or (declared.is_dynamic and name.startswith(declared.name) and name[len(declared.name) :].isdigit())
        for declared in kernel.inputs
    )
