"""Of nodes that compute sizes, or give another shape to the same elements."""

from __future__ import annotations

from ..ge import OF_ATTRIBUTE, TO_ATTRIBUTE
from .known import LONGEST, NOTHING, FedNode, Known, tells
from .sizes import ONE, Size, Sizes, number, product

_BITS = {"int4": 4, "int8": 8, "uint8": 8, "int32": 32, "float32": 32, "int64": 64, "uint64": 64}


@tells("Shape")
def shape_of(call: FedNode) -> Known:
    dtype = OF_ATTRIBUTE.get(call.attribute("dtype", TO_ATTRIBUTE["int32"]))
    shape = call["x"].shape
    return Known(dtype, None if shape is None else (number(len(shape)),), shape)


@tells("Pack")
def pack(call: FedNode) -> Known:
    parts = list(call.inputs.values())
    dtype = parts[0].dtype if all(part.dtype == parts[0].dtype for part in parts) else None
    if call.attribute("axis", 0) != 0 or len(parts) != call.attribute("N") or parts[0].shape is None:
        return Known(dtype)
    value = None
    if parts[0].shape == () and len(parts) <= LONGEST and all(part.value is not None for part in parts):
        value = tuple(part.value[0] for part in parts if part.value is not None)
    return Known(dtype, (number(len(parts)), *parts[0].shape), value)


@tells("Reshape")
def reshape(call: FedNode) -> Known:
    x, wanted = call["x"], call["shape"].value
    plainly = call.attribute("axis", 0) == 0 and call.attribute("num_axes", -1) == -1
    if wanted is None or not plainly:
        return Known(x.dtype)
    return Known(x.dtype, reshaped(x.shape, wanted), x.value)


def reshaped(given: Sizes | None, wanted: Sizes) -> Sizes | None:
    """The shape that Reshape makes: 0 copies a size of the input, and one -1 is inferred.

    Of nothing, with nothing to infer, 0 is 0.
    """
    if given is not None and number(-1) not in wanted:
        if number(0) in given:
            return wanted
        if not _is_copied(given, wanted):
            return None
    found: list[Size | None] = []
    for axis, size in enumerate(wanted):
        if size.number == 0:
            if given is None or axis >= len(given):
                return None
            found.append(given[axis])
        else:
            found.append(None if size.number == -1 else size)
    if None not in found:
        return tuple(size for size in found if size is not None)
    if given is None or found.count(None) > 1:
        return None
    inferred = product(given).divided(product(size for size in found if size is not None))
    return None if inferred is None else tuple(inferred if size is None else size for size in found)


def _is_copied(given: Sizes, wanted: Sizes) -> bool:
    """Whether 0 copies a size, too, where there turns out to be nothing: one size alone can be 0, and is copied."""
    unsure = {size for size in given if size.number is None}
    copied = {size for size, each in zip(given, wanted, strict=False) if each.number == 0}
    return not copied or not unsure or (copied == unsure and len(unsure) == 1)


@tells("Unsqueeze")
def unsqueeze(call: FedNode) -> Known:
    x, axes = call["x"], call.attribute("axes", [])
    if x.shape is None:
        return Known(x.dtype)
    rank = len(x.shape) + len(axes)
    added = {axis % rank for axis in axes}
    rest = iter(x.shape)
    return Known(x.dtype, tuple(ONE if axis in added else next(rest) for axis in range(rank)), x.value)


@tells("Squeeze")
def squeeze(call: FedNode) -> Known:
    x, axes = call["x"], call.attribute("axis", [])
    if x.shape is None or not axes:
        return Known(x.dtype)
    removed = {axis % len(x.shape) for axis in axes}
    return Known(x.dtype, tuple(size for axis, size in enumerate(x.shape) if axis not in removed), x.value)


@tells("Transpose")
def transpose(call: FedNode) -> Known:
    x, order = call["x"], call["perm"].numbers
    if x.shape is None or order is None:
        return Known(x.dtype)
    return Known(x.dtype, tuple(x.shape[axis] for axis in order))


@tells("Bitcast")
def bitcast(call: FedNode) -> Known:
    x, dtype = call["x"], call.dtype("type")
    before, after = _BITS.get(x.dtype or ""), _BITS.get(dtype or "")
    if x.shape is None or before is None or after is None or call.attribute("keep_dim", False):
        return Known(dtype)
    if x.dtype == dtype == "int8":  # int4 whose desc says otherwise
        return Known(dtype)
    if before == after:
        return Known(dtype, x.shape)
    if before > after:
        return Known(dtype, (*x.shape, number(before // after)))
    return Known(dtype, x.shape[:-1]) if x.shape[-1].number == after // before else NOTHING
