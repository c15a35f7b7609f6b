"""Runnable Python examples in Markdown pages."""

from __future__ import annotations

import ast
import doctest
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_BLOCK = re.compile(r"^[ \t]*```+[ \t]*(?P<language>\w*)[^\n]*\n(?P<code>.*?)^[ \t]*```", re.DOTALL | re.MULTILINE)
_PROMPT = re.compile(r"^\s*(>>>|\.\.\.) ?")
_RANKS = re.compile(r"init_process_group|torch\.distributed|mp\.spawn|\bdist\.")
_STARTS = re.compile(r"spawn|\bProcess\(")
_FEWEST_LINES = 2
# A page lists the chips that have its operator; examples of pages for A2 and A3 assume A3.
_FOR_A3 = re.compile(r"^.*Atlas A3 .*√", re.MULTILINE)


@dataclass(frozen=True)
class Example:
    """A program of a page. ``of_ranks``: it needs several ranks; ``for_a3``: A3 has the page's operator."""

    name: str
    code: str
    of_ranks: bool
    for_a3: bool

    @property
    def starts_ranks(self) -> bool:
        """Whether the program starts its own ranks."""
        return bool(_STARTS.search(self.code))


def examples(root: Path) -> Iterator[Example]:
    """Yield every example below ``root``."""
    for page in sorted(root.rglob("*.md")):
        text = page.read_text(encoding="utf-8", errors="replace")
        for_a3 = bool(_FOR_A3.search(text))
        for index, block in enumerate(_BLOCK.finditer(text)):
            code = runnable(textwrap.dedent(block["code"]))
            if code and "import torch" in code:
                name = f"{page.relative_to(root).with_suffix('')}-{index}"
                yield Example(name, code, bool(_RANKS.search(code)), for_a3)


def runnable(block: str) -> str:
    """Return the program in a block without prompts and printed output; empty if there is none."""
    code = _without_prompts(block) if re.search(r"^\s*>>>", block, re.MULTILINE) else block
    lines = code.splitlines()
    for count in range(len(lines), _FEWEST_LINES - 1, -1):
        program = "\n".join(lines[:count]) + "\n"
        try:
            printed = _printed(ast.parse(program))
        except SyntaxError:
            continue
        return program if printed is None else "\n".join(lines[: printed - 1]) + "\n"
    return ""


def _printed(program: ast.Module) -> int | None:
    """Return the line where printed output starts: tensors and names that parse as expressions."""
    known = set(_bound(program))
    for statement in program.body:
        field = {ast.Expr: "value", ast.AnnAssign: "annotation"}.get(type(statement))
        if field is not None and _is_output(getattr(statement, field), known):
            return statement.lineno
    return None


def _bound(program: ast.Module) -> Iterator[str]:
    """Yield the names that a program binds."""
    for node in ast.walk(program):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.alias):
            yield (node.asname or node.name).partition(".")[0]


def _is_output(value: ast.expr, known: set[str]) -> bool:
    """Whether an expression is an unbound name or a printed tensor."""
    if isinstance(value, ast.Tuple | ast.List):
        return any(_is_output(element, known) for element in value.elts)
    if isinstance(value, ast.Call):
        return isinstance(value.func, ast.Name) and value.func.id == "tensor" and "tensor" not in known
    return isinstance(value, ast.Name) and value.id not in known


def _without_prompts(block: str) -> str:
    try:
        return "".join(example.source for example in doctest.DocTestParser().get_examples(block))
    except ValueError:  # a prompt without a blank behind it
        return "\n".join(_PROMPT.sub("", line) for line in block.splitlines() if _PROMPT.match(line))
