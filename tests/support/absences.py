"""What the installed torch_npu lacks of the operators and arguments that tests call."""

from __future__ import annotations

import re

from graph_quant.dispatcher import is_defined, overload
from graph_quant.releases.schemas import DECLARED, read_schemas

_OPERATORS = (r"has no attribute '(\w+)'", r"cannot import name '(\w+)'", r"Unknown operator: npu::(\w+)")
_ARGUMENT = re.compile(r"Unknown keyword argument \\?'(\w+)\\?' for operator \\?'npu::(\w+)")  # repr() escapes quotes


def absence(error: BaseException) -> str | None:
    """The operator or argument that an error is about, if it is declared and the installed release lacks it."""
    text = str(error)
    for pattern in _OPERATORS:
        for name in re.findall(pattern, text):
            if f"npu::{name}" in read_schemas(DECLARED) and not is_defined(f"npu::{name}"):
                return f"torch_npu.{name}"
    for argument, name in _ARGUMENT.findall(text):
        declared, installed = read_schemas(DECLARED).get(f"npu::{name}"), overload(f"npu::{name}")._schema
        names = [one.name for one in installed.arguments]
        if declared and re.search(rf"\b{argument}\b", declared) and argument not in names:
            return f"torch_npu.{name}({argument}=)"
    return None
