"""Reads ``py`` dumps: calls become nodes, comments state their Python lines; executes nothing."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

from ...ge import GeError, Source
from ..errors import DumpError
from .file_contents import Progress
from .py_calls import CallBuilder

_FILE = re.compile(r'# File "(?P<file>[^"]*)", line (?P<line>\d{1,9}), in (?P<function>\S+)')
_FX = re.compile(r"## FX Code: (?P<name>\w+)")
# Bounded repetition: matching stays linear on any text.
_TYPED = re.compile(r"(?<!\w)(?P<name>\w{1,200}): torch\.(?P<dtype>\w{1,40})\[(?P<shape>[^\]\n]{0,2000})\]")
_CALL = re.compile(r"(?:\[[\w, ]*\]|\w+(?:, \w+)*) = ge\.\w+\(")
_QUOTED = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'")
_LONGEST_STATEMENT = 1 << 24


def read_py(text: str, progress: Progress) -> tuple[Any, dict[str, Source]]:
    """Read the GraphDef and the source of every node. Symbols of inputs come from the FX comments."""
    builder = CallBuilder({match["name"]: (match["dtype"], match["shape"]) for match in _TYPED.finditer(text)})
    sources: dict[str, Source] = {}
    current = Source()
    for number, line in _logical_lines(text):
        if match := _FILE.match(line):
            # Certain for the next FX node only: TorchAir omits a line that it has printed before.
            current = Source("", match["file"], int(match["line"]), match["function"])
        elif match := _FX.match(line):
            certain = current.certain and not current.fx
            current = Source(match["name"], current.file, current.line, current.function, certain)
        elif _CALL.match(line):
            for name in _add_statement(builder, line, number):
                sources[name] = current
            progress(number / max(text.count("\n"), 1) if number % 512 == 0 else 0.0)
    return builder.graph, sources


def _add_statement(builder: CallBuilder, statement: str, number: int) -> list[str]:
    """Add the nodes of a statement and return their names."""
    try:
        return builder.add(_parse_assignment(statement))
    except GeError as error:
        raise DumpError(f"line {number}: {error}") from None
    except (TypeError, ValueError, AttributeError, KeyError, IndexError) as error:
        # Arguments of a wrong type, for which the schema raises various errors.
        raise DumpError(f"line {number} is not a call that TorchAir writes: {error}") from None


def _parse_assignment(statement: str) -> tuple[list[str], str, ast.Call]:
    """Parse a statement into assigned names, operator and call."""
    try:
        parsed = ast.parse(statement).body
    except (SyntaxError, ValueError) as error:
        raise DumpError(f"not a call that TorchAir writes: {error}") from None
    match parsed:
        case [
            ast.Assign(
                targets=[target],
                value=ast.Call(func=ast.Attribute(value=ast.Name(id="ge"), attr=operator)) as call,
            )
        ]:
            names = [name.id for name in ast.walk(target) if isinstance(name, ast.Name)]
            return names, operator, call
    raise DumpError(f"not a call that TorchAir writes: {statement[:80]}")


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield comments and statements, which may span lines until their brackets close."""
    pending: list[str] = []
    depth = length = 0
    for number, line in enumerate(text.splitlines(), 1):
        if not pending and (line.startswith("#") or not line.strip()):
            yield number, line
            continue
        bare = _QUOTED.sub("", line)
        depth += sum(map(bare.count, "([{")) - sum(map(bare.count, ")]}"))
        length += len(line)
        pending.append(line)
        if depth <= 0:
            yield number, "\n".join(pending)
            pending, depth, length = [], 0, 0
        elif length > _LONGEST_STATEMENT:
            raise DumpError(f"the statement that ends at line {number} never closes its brackets")
    if pending:
        raise DumpError("the file ends inside a statement")
