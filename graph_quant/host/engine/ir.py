"""The registered definition of a GE operator, read from what TorchAir carries in its generated functions."""

from __future__ import annotations

import re
import sys

_INPUT = re.compile(r"\.(DYNAMIC_INPUT|OPTIONAL_INPUT|INPUT)\(\s*(\w+)")
_OUTPUT = re.compile(r"\.(DYNAMIC_OUTPUT|OUTPUT)\(\s*(\w+)")
_ATTRIBUTE = re.compile(r"\.(?:REQUIRED_ATTR|ATTR)\(\s*(\w+)\s*,\s*(\w+)")
_KINDS = {"INPUT": "required", "OUTPUT": "required", "OPTIONAL_INPUT": "optional"}
_VALUE_TYPES = {
    "Int": "VT_INT",
    "Float": "VT_FLOAT",
    "Bool": "VT_BOOL",
    "Type": "VT_DATA_TYPE",
    "String": "VT_STRING",
    "ListInt": "VT_LIST_INT",
    "ListFloat": "VT_LIST_FLOAT",
    "ListBool": "VT_LIST_BOOL",
    "ListType": "VT_LIST_DATA_TYPE",
    "ListString": "VT_LIST_STRING",
    "ListListInt": "VT_LIST_LIST_INT",
    "ListListFloat": "VT_LIST_LIST_FLOAT",
}

Definition = tuple[str, list[tuple[str, str]], list[tuple[str, str]], list[tuple[str, str]]]
UNREGISTERED: Definition = ("UNREGISTERED", [], [], [])


def registered_ir(op_type: str) -> Definition:
    """Status, inputs, outputs and attributes of an operator in the form of TorchAir's C++ module."""
    function = getattr(sys.modules["torchair._ge_concrete_graph.ge_apis"], op_type, None)
    text = getattr(function, "__doc__", None) or ""
    if "REG_OP" not in text:
        return UNREGISTERED
    return (
        "SUCCESS",
        [(name, _KINDS.get(kind, "dynamic")) for kind, name in _INPUT.findall(text)],
        [(name, _KINDS.get(kind, "dynamic")) for kind, name in _OUTPUT.findall(text)],
        [(name, _VALUE_TYPES[kind]) for name, kind in _ATTRIBUTE.findall(text) if kind in _VALUE_TYPES],
    )
