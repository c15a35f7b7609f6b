"""Parses the arguments of calls in a ``py`` dump: variables, literals and lists of them."""

from __future__ import annotations

import ast
from typing import Any, NamedTuple

from ...ge import OF_ATTRIBUTE
from ..errors import DumpError


class Literal(NamedTuple):
    """A literal; a dtype of None follows from the Python value."""

    value: Any
    dtype: str | None = None


class Reference(NamedTuple):
    """A variable of the dump."""

    name: str


def read_argument(node: ast.expr) -> Any:
    """Parse an argument into a reference, a literal, or a list of them."""
    match node:
        case ast.Name(id="inf" | "nan" as word):
            return Literal(float(word))
        case ast.Name(id=name):
            return Reference(name)
        case ast.Constant(value=value):
            return Literal(value)
        case ast.UnaryOp(op=ast.USub(), operand=operand) if isinstance(
            number := plain_value(read_argument(operand)), int | float
        ):
            return Literal(-number)
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            return [read_argument(element) for element in elements]
        case ast.Call(func=ast.Attribute(attr="Const") | ast.Name(id="tensor"), args=[value, *_], keywords=words):
            return Literal(plain_value(read_argument(value)), _const_dtype(words))
        case ast.Attribute(value=ast.Name(id="torch"), attr=name):
            return Literal(f"torch.{name}")
    raise DumpError(f"an argument that TorchAir does not write: {ast.unparse(node)[:80]}")


def _const_dtype(words: list[ast.keyword]) -> str | None:
    for word in words:
        value = read_argument(word.value)
        if word.arg == "dtype" and isinstance(value, Literal):
            if isinstance(value.value, int):
                return OF_ATTRIBUTE.get(value.value)
            return str(value.value).removeprefix("torch.")
    return None


def as_list(value: Any) -> list[Any]:
    """Wrap anything but a list in a list."""
    if isinstance(value, Literal) and isinstance(value.value, list):
        return [Literal(item) for item in value.value]
    return value if isinstance(value, list) else [value]


def plain_value(value: Any) -> Any:
    """The Python value of a literal or of a list of literals."""
    if isinstance(value, list):
        return [plain_value(item) for item in value]
    if isinstance(value, Reference):
        raise DumpError(f"the variable {value.name} is not allowed here: a literal is needed")
    return value.value if isinstance(value, Literal) else value


def flatten(value: Any) -> tuple[list[Any], list[int]]:
    """Flatten a nested list in row-major order; also return its shape."""
    if not isinstance(value, list):
        return [value], []
    parts = [flatten(item) for item in value]
    if len({tuple(shape) for _, shape in parts}) > 1:
        raise DumpError(f"a constant with rows of different lengths: {str(value)[:60]}")
    return [item for flat, _ in parts for item in flat], [len(parts), *(parts[0][1] if parts else [])]
