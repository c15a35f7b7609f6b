"""Attributes of GE nodes: stored in protobuf, and formatted for people."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from . import dtypes
from .errors import GeError, printable
from .graph import to_python
from .registrations import Attribute, registration

# Integer attributes that hold a ge::DataType.
_DTYPE_NAMES = {
    "dst_type",
    "dtype",
    "out_type",
    "output_type",
    "output_dtype",
    "y_dtype",
    "type",
    "dst_dtype",
    "out_dtype",
    "src_type",
    "index_type",
    "scale_dtype",
}
_LONGEST = 60
_ALWAYS = {"index"}
_NOTHING: tuple[Any, ...] = ("", [], None)
# Attributes that GE's passes set on nodes for each other.
_INTERNAL = re.compile(
    r"OwnerGraphIsUnknown|(?:IN|OUT)PUT_IS_VAR|is_(?:input_const|first_node|last_node)|continuous_|fusion_scope|imply_type"
    r"|isCheckSupported|t[vb][me]_|tbe|op_para_size|LxFusion|true_branch_stream|pass_name|globalworkspace|t_(?:in|out)_dat"
    r"|.*_(?:kernelname|pattern)$|input_para_type|optionalInputMode|wspMode|core_type|ub_atomic|has_infered|current_aipp"
    r"|peerIndex|anchorIndex|parentId|need_|infer_|hasbias|kernelNum|(?:Src|Dst)T$|T(?:params|indices|axis)?$"
)


def format_attribute(name: str, attribute: Any) -> str:
    """An attribute as text: dtypes by name, long values shortened."""
    kind = attribute.WhichOneof("value")
    value = to_python(attribute)
    if kind == "dt" or (kind == "i" and name in _DTYPE_NAMES):
        return dtypes.OF_ATTRIBUTE.get(value, f"unknown dtype {value}")
    if kind == "f":
        return f"{value:.7g}"
    if kind in ("t", "td", "g", "func"):
        return f"<{kind} of {attribute.ByteSize()} bytes>"
    if isinstance(value, list):
        items = [printable(str(item), _LONGEST) for item in value[:16]]
        more = f", … {len(value)} in all" if len(value) > len(items) else ""
        return f"[{', '.join(items)}{more}]"
    return printable(str(value).lower() if kind == "b" else str(value), _LONGEST)


def format_attributes(node: Any, *, declared: bool = False) -> dict[str, str]:
    """The attributes of an OpDef as text, by name; without TorchAir's internal ones."""
    return {
        printable(name, _LONGEST): format_attribute(name, node.attr[name])
        for name in list_attributes(node, declared=declared)
    }


def list_attributes(node: Any, *, declared: bool = False) -> list[str]:
    """The names of those attributes; with ``declared`` only those of the operator's declaration, where it is known.

    GE stores its own decisions (buffers, kernels, tiling) in attributes as well, dozens for each node.
    """
    names = sorted(name for name in node.attr if not name.startswith("_") and name != "value")
    if not declared:
        return names
    stated = (
        [name.decode("utf-8", "replace") for name in node.attr["_ir_attr_names"].list.s]
        if ("_ir_attr_names" in node.attr)
        else []
    )
    registered = registration(node.type)
    known = {*stated, *(attribute.name for attribute in registered.attributes)} if registered else set(stated)
    if known:
        return [name for name in names if name in known | _ALWAYS and not _is_empty(node.attr[name])]
    return [name for name in names if not _INTERNAL.match(name) and not _is_empty(node.attr[name])]


def _is_empty(attribute: Any) -> bool:
    return to_python(attribute) in _NOTHING


def find_non_default(node: Any, names: Iterable[str], only: Mapping[str, tuple[Any, ...]]) -> list[str]:
    """The attributes of an OpDef, as text, that have neither GE's default nor a value in ``only``."""
    allowed = {**_defaults(node.type), **only}
    stated = {name: to_python(node.attr[name]) for name in names if name in allowed}
    return [
        f"{name}={format_attribute(name, node.attr[name])}"
        for name, value in stated.items()
        if not any(value == accepted or (value in _NOTHING and accepted in _NOTHING) for accepted in allowed[name])
    ]


@cache
def _defaults(op_type: str) -> dict[str, tuple[Any, ...]]:
    registered = registration(op_type)
    return {attribute.name: (default_of(attribute),) for attribute in registered.attributes} if registered else {}


def default_of(attribute: Attribute) -> Any:
    """The default that GE registers for an attribute, or None."""
    text = attribute.default
    if text is None or text == "":
        return None
    if text.startswith("DT_"):
        return dtypes.TO_ATTRIBUTE.get(dtypes.of_registration(text))
    if text in ("true", "false"):
        return text == "true"
    if text.startswith("{"):
        items = [item.strip() for item in text.strip("{}").split(",") if item.strip()]
        return [_number(item) for item in items]
    return text.strip('"') if text.startswith('"') else _number(text)


def _number(text: str) -> int | float | bool | None:
    if text in ("true", "false"):
        return text == "true"
    for parse in (int, float):
        try:
            return parse(text.rstrip("f") if parse is float else text)
        except ValueError:
            continue
    return None


def set_attribute(op: Any, name: str, type_name: str, value: Any) -> None:
    """Store a Python value by the registered type, or by the type of the value."""
    attribute = op.attr[name]
    try:
        if isinstance(value, list):
            _set_list(attribute, type_name, value)
        elif type_name == "Type":
            attribute.dt = value
        elif isinstance(value, bool):
            attribute.b = value
        elif type_name == "Float" or isinstance(value, float):
            attribute.f = value
        elif isinstance(value, int):
            attribute.i = value
        else:
            attribute.s = str(value).encode()
    except (TypeError, ValueError):
        raise GeError(f"{op.name}: {str(value)[:60]} is no value for the attribute {name}") from None


def _set_list(attribute: Any, type_name: str, value: list[Any]) -> None:
    if value and isinstance(value[0], list):
        for row in value:
            attribute.list_list_int.list_list_i.add().list_i.extend(row)
    elif type_name == "ListFloat" or any(isinstance(item, float) for item in value):
        attribute.list.f.extend(value)
    elif value and all(isinstance(item, bool) for item in value):
        attribute.list.b.extend(value)
    elif value and all(isinstance(item, str) for item in value):
        attribute.list.s.extend(item.encode() for item in value)
    else:
        attribute.list.i.extend(value)
