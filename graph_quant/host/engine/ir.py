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
    """Return status, inputs, outputs and attributes of an operator, from TorchAir or else from its kernel."""
    registered = registration(op_type)
    if registered is None:
        return _kernel_definition(KERNELS[op_type]) if op_type in KERNELS else UNREGISTERED
    return (
        "SUCCESS",
        [(entry.name, entry.kind) for entry in registered.inputs],
        [(entry.name, entry.kind) for entry in registered.outputs],
        [(attr.name, _VALUE_TYPES[attr.type]) for attr in registered.attributes if attr.type in _VALUE_TYPES],
    )


def _kernel_definition(kernel: Kernel) -> Definition:
    """Return the inputs that a kernel declares. It declares no outputs: the converter states those itself."""
    inputs = [
        (declared.name, "dynamic" if declared.is_dynamic else "optional" if declared.is_optional else "required")
        for declared in kernel.inputs
    ]
    return "SUCCESS", inputs, [], []
