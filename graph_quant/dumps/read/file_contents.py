"""The contents of a dump file of any format."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ...ge import Source

Progress = Callable[[float], None]

# Formats that GE itself writes: their descs hold inferred types, not what a converter wrote.
GE_KINDS = {"ge_proto", "ge_onnx", "ge_readable"}
# Those of them that contain the internal attributes of GE's passes.
ANNOTATED_KINDS = {"ge_proto", "ge_onnx"}
# What a truncated file lacks.
TRUNCATED = "the file ends inside a node: that node and what follows"


@dataclass
class FileContents:
    """``graphs`` are GraphDefs, the root first; ``missing`` lists what the file does not contain."""

    kind: str
    graphs: list[Any]
    sources: dict[str, Source] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
