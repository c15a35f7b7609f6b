"""What each file format can express, so that dumps of different formats are compared only in what both contain."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any

from ...ge import Node, list_attributes, registration, to_python
from ..read.file_contents import ANNOTATED_KINDS, GE_KINDS

if TYPE_CHECKING:
    from ..dump import Dump

_NUMBERS = ("i", "b", "f")
# A readable dump prints floats with six decimals.
_PRINTED_TOLERANCE = 5e-7


def compared_attributes(dump: Dump, node: Node, naming: set[str]) -> set[str]:
    """The names of the attributes that determine what a node computes."""
    if dump.kind in GE_KINDS:
        return set(list_attributes(node.proto, declared=dump.kind in ANNOTATED_KINDS)) | {"value"} & set(
            node.proto.attr
        )
    return {name for name in node.proto.attr if name not in naming}


def can_express(dump: Dump, node: Node, name: str, attribute: Any) -> bool:
    """Whether the format of ``dump`` can express this attribute."""
    if dump.kind == "ge_readable":
        declared = registration(node.type)
        has_value = to_python(attribute) not in ("", [], None)
        return has_value and bool(declared) and name in {parameter.name for parameter in declared.attributes}  # type: ignore[union-attr]
    if dump.kind == "ge_onnx":
        kind = attribute.WhichOneof("value")
        if kind == "s":
            return _carries_text(dump)
        return kind in (*_NUMBERS, "t", "list_list_int") or (kind == "list" and _is_list_of_numbers(attribute))
    return True


@cache
def _carries_text(dump: Dump) -> bool:
    """Whether an ONNX dump has strings: GE omits them except at its most verbose level."""
    return any(
        attribute.WhichOneof("value") == "s" and attribute.s
        for node in dump.order
        for attribute in node.proto.attr.values()
    )


def _is_list_of_numbers(attribute: Any) -> bool:
    return bool(attribute.list.i or attribute.list.b or attribute.list.f)


def is_same_attribute(left: Any, right: Any, *, printed: bool) -> bool:
    """Whether two attributes have equal values; GE's formats write a bool as a number, and may round floats."""
    one, other = _plain_value(left), _plain_value(right)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(_is_close(a, b, printed) for a, b in zip(one, other, strict=True))
    return _is_close(one, other, printed)


def _is_close(one: Any, other: Any, printed: bool) -> bool:
    if printed and isinstance(one, float | int) and isinstance(other, float | int):
        return math.isclose(one, other, rel_tol=_PRINTED_TOLERANCE, abs_tol=_PRINTED_TOLERANCE)
    return bool(one == other)


def _plain_value(attribute: Any) -> Any:
    value = to_python(attribute)
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, list):
        return [int(item) if isinstance(item, bool) else item for item in value]
    return value


def integer_attributes(node: Node) -> list[tuple[str, Any]]:
    """The integer and bool attributes, which all formats of GE write exactly."""
    result = []
    for name in list_attributes(node.proto, declared=True):
        attribute = node.proto.attr[name]
        if attribute.WhichOneof("value") in ("i", "b") or (
            attribute.WhichOneof("value") == "list" and (attribute.list.i or attribute.list.b)
        ):
            result.append((name, _plain_value(attribute)))
    return result


def constant_data(node: Node) -> tuple[int, list[int], bytes] | None:
    """The dtype, shape and bytes of a constant or variable; None if the dump does not contain them."""
    if "value" not in node.proto.attr:
        return None
    tensor = node.proto.attr["value"].t
    sizes = list(tensor.desc.shape.dim)
    return (tensor.desc.dtype, sizes, tensor.data) if tensor.data or 0 in sizes else None


def printed_constant(node: Node) -> str | None:
    """The value of a constant or variable as a readable dump prints it; None if the dump does not contain it."""
    tensor = node.proto.attr["value"].t if "value" in node.proto.attr else None
    if tensor is not None and tensor.data:
        return abbreviate_tensor(tensor)
    if "_readable_value" in node.proto.attr:
        return str(node.proto.attr["_readable_value"].s, "utf-8", "backslashreplace").replace(", ", " ")
    return None


def abbreviate_tensor(tensor: Any) -> str:
    """Format a tensor as GE does: of more than six elements, the first and last three."""
    from ...ge import decode_tensor

    try:
        flat = decode_tensor(tensor).reshape(-1)
        items = flat.tolist() if flat.numel() <= 6 else [*flat[:3].tolist(), "...", *flat[-3:].tolist()]
    except (TypeError, ValueError):
        return "<not_supported>"
    if not items:
        return "<empty>"
    return f"[{' '.join(f'{item:.6f}' if isinstance(item, float) else str(item).lower() for item in items)}]"
