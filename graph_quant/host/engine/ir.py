"""The registered definition of a GE operator, in the form of TorchAir's C++ module."""

from __future__ import annotations

from ...ge import KERNELS, Kernel, registration

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
    """Status, inputs, outputs and attributes of an operator: as TorchAir knows it, else as its kernel declares it."""
    found = registration(op_type)
    if found is None:
        return _of_kernel(KERNELS[op_type]) if op_type in KERNELS else UNREGISTERED
    return (
        "SUCCESS",
        [(each.name, each.kind) for each in found.inputs],
        [(each.name, each.kind) for each in found.outputs],
        [(each.name, _VALUE_TYPES[each.type]) for each in found.attributes if each.type in _VALUE_TYPES],
    )


def _of_kernel(kernel: Kernel) -> Definition:
    """A kernel names inputs and attributes, neither outputs nor types: a converter states those itself."""
    kinds = [
        (each, "dynamic" if each.is_dynamic else "optional" if each.is_optional else "required")
        for each in kernel.inputs
    ]
    return "SUCCESS", [(each.name, kind) for each, kind in kinds], [], []
