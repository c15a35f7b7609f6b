"""What a file holds, whatever its format: graphs, the Python lines of their nodes, and what the format leaves out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ...ge import Source

Progress = Callable[[float], None]

# Formats that GE itself writes: their descs are what GE has inferred, not what a converter left there.
GE_KINDS = {"ge_proto", "ge_onnx", "ge_readable"}
# Those among them that hold what GE's passes note on nodes for each other.
ANNOTATED_KINDS = {"ge_proto", "ge_onnx"}
# What is missing of a file that stops in the middle.
TRUNCATED = "the file ends inside a node: that node and what follows"


@dataclass
class FileContents:
    """``graphs`` are GraphDefs, the one that no other calls first; ``missing`` says what the file does not tell."""

    kind: str
    graphs: list[Any]
    sources: dict[str, Source] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
