"""The examples in documents: the Python blocks of Markdown pages that can run as they stand."""

from __future__ import annotations

import ast
import doctest
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

_BLOCK = re.compile(r"^[ \t]*```+[ \t]*(?P<language>\w*)[^\n]*\n(?P<code>.*?)^[ \t]*```", re.DOTALL | re.MULTILINE)
_PROMPT = re.compile(r"^\s*(>>>|\.\.\.) ?")
# Programs of several ranks are started by other means.
_RANKS = re.compile(r"init_process_group|torch\.distributed|mp\.spawn|\bdist\.")
_FEWEST_LINES = 2


def examples(root: Path) -> Iterator[tuple[str, str]]:
    """The name and the code of every example for one rank below ``root``."""
    for page in sorted(root.rglob("*.md")):
        text = page.read_text(encoding="utf-8", errors="replace")
        for place, block in enumerate(_BLOCK.finditer(text)):
            code = runnable(textwrap.dedent(block["code"]))
            if code and "import torch" in code and not _RANKS.search(code):
                yield f"{page.relative_to(root).with_suffix('')}-{place}", code


def runnable(block: str) -> str:
    """The program in a block: without prompts, and without the output that is printed below it; "" where none is."""
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
    """The line where a printed tensor stands behind the program, which is an expression as well."""
    for statement in program.body:
        if isinstance(statement, ast.Expr) and ast.unparse(statement).startswith(("tensor(", "(tensor(", "[tensor(")):
            return statement.lineno
    return None


def _without_prompts(block: str) -> str:
    try:
        return "".join(example.source for example in doctest.DocTestParser().get_examples(block))
    except ValueError:  # a prompt without a blank behind it
        return "\n".join(_PROMPT.sub("", line) for line in block.splitlines() if _PROMPT.match(line))
