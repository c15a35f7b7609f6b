"""Lists the quantisation methods of a checkout that no case runs.

Usage: `python -m compat.layers.uncovered_methods CHECKOUTS`.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

_FOLDERS = {
    "vllm-ascend": "vllm_ascend/quantization/methods",
    "sglang": "python/sglang/srt/hardware_backend/npu/quantization",
}
# These compute nothing: the first stores two rotations for an indexer, the second selects other methods.
_NOTHING_TO_COMPUTE = {"AscendSFAQuantAttentionMethod", "NPUMXFP8OnlineMoEMethod"}


def uncovered_methods(project: str, checkout: Path) -> list[str]:
    """Return the method and kernel classes that no case names."""
    cases = [
        node
        for path in Path(__file__).parent.glob(f"{project.replace('-', '_')}*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    ]
    named = {node.value for node in cases if isinstance(node, ast.Constant)}
    named |= {node.attr for node in cases if isinstance(node, ast.Attribute)}
    methods = [
        node.name
        for path in sorted((checkout / _FOLDERS[project]).glob("*.py"))
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and node.name.endswith(("Method", "Kernel"))
    ]
    return [name for name in methods if name not in named | _NOTHING_TO_COMPUTE]


if __name__ == "__main__":
    for project in _FOLDERS:
        methods = uncovered_methods(project, Path(sys.argv[1]) / project)
        print(f"{project}: {', '.join(methods) or 'every method has a case'}")
