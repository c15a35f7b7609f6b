"""Shape functions of GE nodes that compute sizes, or that view the same elements in another shape."""

from __future__ import annotations

from ..ge import OF_ATTRIBUTE, TO_ATTRIBUTE
from .inference import MAX_TRACKED_ELEMENTS, UNKNOWN, Inferred, NodeContext, shape_function
from .sizes import ONE, Size, Sizes, number, product

_BITS = {"int4": 4, "int8": 8, "uint8": 8, "int32": 32, "float32": 32, "int64": 64, "uint64": 64}


@shape_function("Shape")
def infer_shape(node: NodeContext) -> Inferred:
    dtype = OF_ATTRIBUTE.get(node.attribute("dtype", TO_ATTRIBUTE["int32"]))
    shape = node["x"].shape
    return Inferred(dtype, None if shape is None else (number(len(shape)),), shape)


@shape_function("Pack")
def infer_pack(node: NodeContext) -> Inferred:
    parts = list(node.inputs.values())
    dtype = parts[0].dtype if all(part.dtype == parts[0].dtype for part in parts) else None
    if node.attribute("axis", 0) != 0 or len(parts) != node.attribute("N") or parts[0].shape is None:
        return Inferred(dtype)
    value = None
    if parts[0].shape == () and len(parts) <= MAX_TRACKED_ELEMENTS and all(part.value is not None for part in parts):
        value = tuple(part.value[0] for part in parts if part.value is not None)
    return Inferred(dtype, (number(len(parts)), *parts[0].shape), value)


@shape_function("Reshape")
def infer_reshape(node: NodeContext) -> Inferred:
    x, target = node["x"], node["shape"].value
    is_plain = node.attribute("axis", 0) == 0 and node.attribute("num_axes", -1) == -1
    if target is None or not is_plain:
        return Inferred(x.dtype)
    return Inferred(x.dtype, reshape_shape(x.shape, target), x.value)


def reshape_shape(source: Sizes | None, target: Sizes) -> Sizes | None:
    """The shape that Reshape gives: 0 copies a size of the input, and one -1 is inferred.

    For an empty input without -1, a 0 stays 0.
    """
    if source is not None and number(-1) not in target:
        if number(0) in source:
            return target
        if not _is_copied(source, target):
            return None
    sizes: list[Size | None] = []
    for axis, size in enumerate(target):
        if size.number == 0:
            if source is None or axis >= len(source):
                return None
            sizes.append(source[axis])
        else:
            sizes.append(None if size.number == -1 else size)
    if None not in sizes:
        return tuple(size for size in sizes if size is not None)
    if source is None or sizes.count(None) > 1:
        return None
    inferred = product(source).divided(product(size for size in sizes if size is not None))
    return None if inferred is None else tuple(inferred if size is None else size for size in sizes)


def _is_copied(source: Sizes, target: Sizes) -> bool:
    """Whether a 0 in ``target`` has the copied size even if the input is empty.

    That holds where the only symbolic size, which alone can be 0, is the one that is copied.
    """
    symbolic = {size for size in source if size.number is None}
    copied = {size for size, requested in zip(source, target, strict=False) if requested.number == 0}
    return not copied or not symbolic or (copied == symbolic and len(symbolic) == 1)


@shape_function("Unsqueeze")
def infer_unsqueeze(node: NodeContext) -> Inferred:
    x, axes = node["x"], node.attribute("axes", [])
    if x.shape is None:
        return Inferred(x.dtype)
    rank = len(x.shape) + len(axes)
    added = {axis % rank for axis in axes}
    rest = iter(x.shape)
    return Inferred(x.dtype, tuple(ONE if axis in added else next(rest) for axis in range(rank)), x.value)


@shape_function("Squeeze")
def infer_squeeze(node: NodeContext) -> Inferred:
    x, axes = node["x"], node.attribute("axis", [])
    if x.shape is None or not axes:
        return Inferred(x.dtype)
    removed = {axis % len(x.shape) for axis in axes}
    return Inferred(x.dtype, tuple(size for axis, size in enumerate(x.shape) if axis not in removed), x.value)


@shape_function("Transpose")
def infer_transpose(node: NodeContext) -> Inferred:
    x, order = node["x"], node["perm"].numbers
    if x.shape is None or order is None:
        return Inferred(x.dtype)
    return Inferred(x.dtype, tuple(x.shape[axis] for axis in order))


@shape_function("Bitcast")
def infer_bitcast(node: NodeContext) -> Inferred:
    x, dtype = node["x"], node.dtype("type")
    before, after = _BITS.get(x.dtype or ""), _BITS.get(dtype or "")
    if x.shape is None or before is None or after is None or node.attribute("keep_dim", False):
        return Inferred(dtype)
    if x.dtype == dtype == "int8":  # may be int4, which a desc can state as int8
        return Inferred(dtype)
    if before == after:
        return Inferred(dtype, x.shape)
    if before > after:
        return Inferred(dtype, (*x.shape, number(before // after)))
    return Inferred(dtype, x.shape[:-1]) if x.shape[-1].number == after // before else UNKNOWN
