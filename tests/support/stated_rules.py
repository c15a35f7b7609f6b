"""The rules that a record states in its source, and those that no wrong call of a table reached."""

import ast
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from graph_quant.refusals import Refusal

# A line of a source file.
Line = tuple[str, int]


def rules_of(module: Path) -> Iterator[ast.Call]:
    """The calls that state a rule, but for those of Ascend 950, whose wrong calls are in other tables.

    They are in a branch, or in a function with that name.
    """
    nodes: list[ast.AST] = [ast.parse(module.read_text())]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "rules.chip is ASCEND_950":
            nodes += node.orelse
            continue
        if isinstance(node, ast.FunctionDef) and node.name.endswith("_950"):
            continue
        nodes += ast.iter_child_nodes(node)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = node.func.value
            if "rules" in (getattr(owner, "id", ""), getattr(owner, "attr", "")):
                yield node


def refusing_lines(call: Callable[[], object]) -> set[Line]:
    """The source lines at which a wrong call was refused."""
    try:
        call()
    except Refusal as refusal:
        frames = traceback.walk_tb(refusal.__traceback__)
        return {(frame.f_code.co_filename, line) for frame, line in frames}
    return set()


def rules_without_a_call(modules: Iterable[Path], refused: set[Line]) -> list[str]:
    """The rules of modules that refused none of the calls."""
    return [
        f"{module.name}:{rule.lineno}"
        for module in sorted(modules)
        for rule in rules_of(module)
        if not any((str(module), line) in refused for line in range(rule.lineno, (rule.end_lineno or 0) + 1))
    ]
