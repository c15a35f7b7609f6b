"""Views, permutations, broadcasts and bitcasts. Results may alias the input.

Bitcast also packs and unpacks int4 and float4.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ... import int4
from ...destination import INT4
from ...dispatcher import step
from ...ge import FOUR_BITS, Sizes, from_attr, kernel
from ...narrow_floats import pack_pairs, unpack_pairs
from ...reference.blocks import BLOCK_ELEMENTS


@kernel("Reshape", may_alias=True, view=True)
def reshape(x: Tensor, shape: Sizes, *, axis: int = 0, num_axes: int = -1) -> Tensor:
    """Reshape the dimensions from ``axis`` on, ``num_axes`` of them. 0 keeps a dimension, -1 is inferred."""
    first = axis if axis >= 0 else x.dim() + axis + 1
    last = x.dim() if num_axes == -1 else first + num_axes
    replaced = list(x.shape[first:last])
    empty = x.numel() == 0
    sizes = [
        replaced[dim] if size == 0 and dim < len(replaced) and not (empty and -1 not in shape.ints) else size
        for dim, size in enumerate(shape.ints)
    ]
    if empty and -1 in sizes:
        sizes[sizes.index(-1)] = _infer_size(replaced, shape.ints)
    return x.reshape([*x.shape[:first], *sizes, *x.shape[last:]])


def _infer_size(replaced: Sequence[int], requested: Sequence[int]) -> int:
    """Return the size that -1 stands for in an empty tensor: dimensions that are kept cancel out."""
    kept = {dim for dim, size in enumerate(requested) if size == 0 and dim < len(replaced)}
    elements = math.prod(size for dim, size in enumerate(replaced) if dim not in kept)
    known = math.prod(size for dim, size in enumerate(requested) if dim not in kept and size != -1)
    return elements // known if known else 0


@kernel("FlattenV2", may_alias=True, view=True)
def flatten(x: Tensor, *, axis: int = 1, end_axis: int = -1) -> Tensor:
    return torch.flatten(x, axis, end_axis)


@kernel("Transpose", may_alias=True, flops=0)
def transpose(x: Tensor, perm: Sizes) -> Tensor:
    return x.permute(list(perm.ints))


@kernel("TransposeD", may_alias=True, flops=0)
def transpose_attribute(x: Tensor, *, perm: Sequence[int]) -> Tensor:
    return x.permute(list(perm))


@kernel("Squeeze", may_alias=True, view=True)
def squeeze(x: Tensor, *, axis: Sequence[int] = ()) -> Tensor:
    if not axis:
        return x.squeeze()
    for dim in axis:
        if x.size(dim) != 1:
            raise ValueError(f"axis {dim} must have size 1, got {x.size(dim)}")
    return x.squeeze(tuple(axis))


@kernel("SqueezeV3", may_alias=True)
def squeeze_input(x: Tensor, axes: Sizes | None = None) -> Tensor:
    return squeeze(x, axis=() if axes is None else axes.ints)


@kernel("Unsqueeze", may_alias=True, view=True)
def unsqueeze(x: Tensor, *, axes: Sequence[int] = ()) -> Tensor:
    rank = x.dim() + len(axes)
    for axis in sorted(dim % rank for dim in axes):
        x = x.unsqueeze(axis)
    return x


@kernel("UnsqueezeV3", may_alias=True)
def unsqueeze_input(x: Tensor, axes: Sizes) -> Tensor:
    return unsqueeze(x, axes=axes.ints)


@kernel("ExpandDims", may_alias=True, view=True)
def expand_dims(x: Tensor, axis: Sizes) -> Tensor:
    return unsqueeze(x, axes=axis.ints)


@kernel("BroadcastTo", "Expand", may_alias=True, flops=0)
def broadcast_to(x: Tensor, shape: Sizes) -> Tensor:
    """Broadcast; -1 keeps a dimension. Expand also keeps a dimension where the shape has 1."""
    sizes = list(shape.ints)
    added = len(sizes) - x.dim()
    for dim in range(max(added, 0), len(sizes)):
        if sizes[dim] == 1:
            sizes[dim] = -1
    return x.expand(sizes)


@kernel("Tile", flops=0)
def tile(x: Tensor, multiples: Sizes) -> Tensor:
    return x.repeat(list(multiples.ints))


@kernel("AsStrided", may_alias=True)
def as_strided(x: Tensor, size: Sizes, stride: Sizes, storage_offset: Sizes | None = None) -> Tensor:
    offset = 0 if storage_offset is None or not storage_offset.ints else storage_offset.ints[0]
    return x.contiguous().as_strided(list(size.ints), list(stride.ints), offset)


@kernel("ViewCopy")
def view_copy(
    dst: Tensor,
    dst_size: Sizes,
    dst_stride: Sizes,
    dst_storage_offset: Sizes,
    src: Tensor,
    src_size: Sizes,
    src_stride: Sizes,
    src_storage_offset: Sizes,
) -> Tensor:
    result = dst.clone(memory_format=torch.contiguous_format)
    target = result.as_strided(list(dst_size.ints), list(dst_stride.ints), dst_storage_offset.ints[0])
    source = src.contiguous().as_strided(list(src_size.ints), list(src_stride.ints), src_storage_offset.ints[0])
    target.copy_(source)
    return result


@kernel("ReverseV2")
def reverse(x: Tensor, axis: Sizes) -> Tensor:
    return x.flip(list(axis.ints))


@kernel("Roll")
def roll(x: Tensor, *, shifts: Sequence[int], dims: Sequence[int] = ()) -> Tensor:
    return torch.roll(x, tuple(shifts), tuple(dims)) if dims else torch.roll(x, tuple(shifts))


@kernel("Tril")
def tril(x: Tensor, *, diagonal: int = 0) -> Tensor:
    return torch.tril(x, diagonal)


@kernel("Triu")
def triu(x: Tensor, *, diagonal: int = 0) -> Tensor:
    return torch.triu(x, diagonal)


@kernel("Bitcast", may_alias=True, view=True)
def bitcast(x: Tensor, *, type: int, keep_dim: bool = False) -> Tensor:  # noqa: A002
    """Reinterpret the bits as another type; another width adds, removes or scales the last dimension."""
    if type == INT4.ge_attr:
        elements = int4.unpack(x)
        return elements if keep_dim else elements.reshape([*x.shape, INT4.packing])
    dtype = from_attr(type)
    if x.dtype in FOUR_BITS and dtype == torch.uint8:
        packed = pack_pairs(x)
        return packed if keep_dim else packed.squeeze(-1)
    if x.dtype in (torch.uint8, torch.int8) and dtype in FOUR_BITS:
        elements = unpack_pairs(x.view(torch.uint8)).view(dtype)
        return elements if keep_dim else elements.unflatten(-1, (-1, 2))
    if x.dtype == dtype == torch.int8:
        # A cast from int8 to int8 means int4, two to a byte.
        packed = int4.pack_pairs(x)
        return packed if keep_dim else packed.squeeze(-1)
    if x.dtype == torch.int8 and dtype == torch.int32 and (keep_dim or x.size(-1) == INT4.packing):
        packed = _pack_int4(x)
        return packed if keep_dim else packed.squeeze(-1)
    if x.element_size() == dtype.itemsize:
        return x.view(dtype)
    if x.element_size() < dtype.itemsize:
        joined = x.contiguous().view(dtype)
        return joined if keep_dim else joined.squeeze(-1)
    parts = x.contiguous().unsqueeze(-1).view(dtype)
    return parts.flatten(-2) if keep_dim else parts


def _pack(elements: Tensor) -> Tensor:
    blocks = [int4.pack(block) for block in elements.reshape(-1).split(BLOCK_ELEMENTS)]
    return torch.cat(blocks).reshape([*elements.shape[:-1], elements.size(-1) // INT4.packing])


def _fake_pack(elements: Tensor) -> Tensor:
    width = elements.size(-1) // INT4.packing
    return elements.new_empty([*elements.shape[:-1], width], dtype=torch.int32)


_step = step("pack_int4(Tensor elements) -> Tensor", _pack, _fake_pack)


def _pack_int4(elements: Tensor) -> Tensor:
    """Pack eight int4 into each int32; outside compiled code in blocks that stay in cache."""
    if torch.compiler.is_compiling():
        return int4.pack(elements)
    return _step(elements)  # type: ignore[no-any-return]
