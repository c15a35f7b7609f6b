"""The retired words of docs/glossary.md do not come back: not as names, not in docstrings, comments and pages.

As a script, `python tests/architecture/test_vocabulary.py [FILE ...]`, it checks single files, or all of them.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
GLOSSARY = "docs/glossary.md"
# Variables and parameters: banned in functions of more than LONGEST lines, rare in shorter ones.
BINDINGS = frozenset({"asked", "each", "found", "given", "made", "place", "places", "said", "told"})
LONGEST, MOST_BINDINGS = 10, 100
# Parts of the snake_case and CamelCase names of modules, functions and classes.
PARTS = frozenset(
    {"door", "doors", "elsewhere", "house", "mend", "mended", "mends", "place", "places", "seam", "seams", "shelf"}
    | {"shelves", "stretch", "stretches", "tells", "told"}
)


def _phrases(pattern: str) -> re.Pattern[str]:
    """Compile a pattern whose spaces also match the end of a line, in comments too."""
    return re.compile(pattern.replace(" ", r"\s+(?:[#*]+\s*)?"), re.IGNORECASE)


PROSE = _phrases(
    r"\b(?:at hand|at home|broken up|drawn numbers|elsewhere|even numbers|mend(?:ed|ing|s)?|open sizes?|places?"
    r"|seams?|shel(?:f|ves)|stretch(?:es)?|taken apart|tells|told|ways? out|what is no number)\b"
)
# Common English, and PyTorch's own words, in which a retired word has its usual meaning.
ALLOWED = {
    "an operation that overwrites its input, or does not": r"\b(?:in|out(?:-| )of)(?:-| )place\b",
    "instead of": r"\b(?:in|takes?|taking|taken) (?:the |its |their )?places? of\b",
    "to happen": r"\b(?:takes?|took|taken|taking) place\b",
    "digits, and the unit of rounding errors": r"\bdecimal places?\b|\bunits? (?:in|of) (?:the|its) last place\b",
}
_ALLOWED = _phrases("|".join(ALLOWED.values()))
# Names that are quoted: of upstream, of arguments, of files.
_QUOTED = re.compile(r"``.*?``|`[^`]*`|\]\([^)]*\)|<[^>]*>", re.DOTALL)
_FENCED = re.compile(r"^( *)(```|~~~).*?^\1\2 *$", re.DOTALL | re.MULTILINE)
_C_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)


class Finding(NamedTuple):
    """A retired word in a file."""

    path: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


class Words(NamedTuple):
    """What one file has: banned names and prose, and bindings in short functions, which are counted."""

    banned: list[Finding]
    counted: list[Finding]


def check(path: str, text: str) -> Words:
    """Check one file by its suffix."""
    words = Words([], [])
    if path.endswith(".py"):
        tree = ast.parse(text)
        words.banned.extend(_banned_names(path, tree))
        for finding, length in _bindings(path, tree):
            (words.banned if length > LONGEST else words.counted).append(finding)
        prose = [*_docstrings(tree), *_comments(text)] if PROSE.search(text) else []
    elif path.endswith(".md"):
        prose = [(1, _pages_prose(path, text))]
    else:
        prose = [(text[: match.start()].count("\n") + 1, match[0]) for match in _C_COMMENT.finditer(text)]
    for line, part in prose:
        words.banned.extend(_banned_prose(path, line, part))
    return words


def _banned_names(path: str, tree: ast.Module) -> Iterator[Finding]:
    if _has_retired_part(Path(path).stem):
        yield Finding(path, 1, f"the module's name {Path(path).stem!r} has a retired word")
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and _has_retired_part(node.name):
            yield Finding(path, node.lineno, f"the name {node.name!r} has a retired word")


def _has_retired_part(name: str) -> bool:
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    return not PARTS.isdisjoint(re.sub(r"\bin_place\b|(?<=_)in_place(?=_|$)|^in_place", "", snake).split("_"))


def _bindings(path: str, tree: ast.Module) -> Iterator[tuple[Finding, int]]:
    """Yield each binding of a banned name, and the lines of the outermost function around it (0 outside of one)."""
    pending: list[tuple[ast.AST, int]] = [(tree, 0)]
    while pending:
        node, length = pending.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not length:
            length = (node.end_lineno or node.lineno) - node.lineno + 1
        name = None
        if isinstance(node, ast.arg):
            name = node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            name = node.id
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs)):
            name = node.name
        if name in BINDINGS:
            yield Finding(path, node.lineno, f"the name {name!r} in a function of {length} lines"), length  # type: ignore[attr-defined]
        pending += [(child, length) for child in ast.iter_child_nodes(node)]


def _docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and ast.get_docstring(node):
                yield first.lineno, str(first.value.value)


def _comments(text: str) -> Iterator[tuple[int, str]]:
    """Yield blocks of comment lines as one text, because a phrase may be wrapped."""
    block: list[str] = []
    start = previous = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT:
            continue
        if block and token.start[0] != previous + 1:
            yield start, "\n".join(block)
            block = []
        if not block:
            start = token.start[0]
        block.append(token.string.lstrip("# "))
        previous = token.start[0]
    if block:
        yield start, "\n".join(block)


def _pages_prose(path: str, text: str) -> str:
    if path == GLOSSARY:
        text = text.partition("## Retired words")[0]
    return _FENCED.sub(_blank, text)


def _banned_prose(path: str, line: int, text: str) -> Iterator[Finding]:
    plain = _ALLOWED.sub(_blank, _QUOTED.sub(_blank, text))
    for match in PROSE.finditer(plain):
        yield Finding(path, line + plain[: match.start()].count("\n"), f"the words {' '.join(match[0].split())!r}")


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match[0])


def _files(names: Iterable[str] = ()) -> Iterator[tuple[str, str]]:
    patterns = list(names) or ["*.py", "*.md", "*.c", "*.h"]
    listed = subprocess.run(["git", "ls-files", "--", *patterns], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file() and name.endswith((".py", ".md", ".c", ".h")):
            yield name, (ROOT / name).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def words() -> Words:
    checked = [check(path, text) for path, text in _files()]
    return Words([f for file in checked for f in file.banned], [f for file in checked for f in file.counted])


def test_no_retired_words(words) -> None:
    assert not words.banned, "\n".join(["", *map(str, words.banned)])


def test_bindings_in_short_functions_are_rare(words) -> None:
    assert len(words.counted) < MOST_BINDINGS, "\n".join(["", *map(str, words.counted)])


@pytest.mark.parametrize(
    ("path", "text", "count"),
    [
        ("a.py", '"""Written in place, in-place, and takes the place of another."""', 0),
        ("a.py", '"""An out-of-place operator, off by a unit in the last place."""', 0),
        ("a.py", '"""Which place it has."""', 1),
        ("a.py", '"""Rounded to two decimal places. The call takes place later."""', 0),
        ("a.py", '"""The argument ``place`` of a `seam`."""', 0),
        ("a.py", '"""A function that\n    is broken\n    up."""', 1),
        ("a.py", "x = 1  # the way\n# out of it", 1),
        ("a.py", "x = 'told in a string'", 0),
        ("a.py", "placeholder = replaced = 1", 0),
        ("a.py", "def test_in_place() -> None: ...", 0),
        ("a.py", "def places() -> None: ...", 1),
        ("a.py", "class TheSeam: ...", 1),
        ("mended.py", "", 1),
        ("a.py", "def f(given):\n" + "    x = 1\n" * 10, 1),
        ("a.py", "def f(given):\n    return given", 0),
        ("a.md", "Told.\n\n```python\nplace = 1\n```\n`place`", 1),
        ("a.c", "int places; /* the places */", 1),
        (GLOSSARY, "# Terms\n\n## Retired words\n\n| place |", 0),
    ],
)
def test_checker(path: str, text: str, count: int) -> None:
    assert len(check(path, text).banned) == count


def main(names: list[str]) -> int:
    """Print what is banned in files; return the exit status."""
    findings = [finding for path, text in _files(names) for finding in check(path, text).banned]
    print("\n".join(map(str, findings)), end="\n" if findings else "")
    return int(bool(findings))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
