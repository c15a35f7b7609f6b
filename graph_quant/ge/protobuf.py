"""TorchAir's protobuf schema of GE graphs, loaded without torch: reading a dump needs neither torch nor an NPU."""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from .errors import GeError

# TorchAir ships its schema twice, generated for protobuf 3 and for anything newer.
_GENERATED = {True: "ge_ir_by_protoc_3_13_pb2", False: "ge_ir_by_protoc_3_19_pb2"}


@cache
def folder() -> Path:
    """The folder of the GE schema in the installed TorchAir."""
    spec = importlib.util.find_spec("torch_npu")
    if spec is None or not spec.submodule_search_locations:
        raise GeError("torch_npu is not installed; its TorchAir holds the schema that dumps are read with")
    return Path(spec.submodule_search_locations[0]) / "dynamo" / "torchair" / "_ge_concrete_graph"


@cache
def schema() -> ModuleType:
    """The module with ``GraphDef`` and its parts; the same classes TorchAir uses in this process."""
    import google.protobuf

    name = _GENERATED[google.protobuf.__version__.startswith("3.")]
    loaded = sys.modules.get(f"torchair._ge_concrete_graph.{name}")
    if loaded is not None:
        return loaded
    spec = importlib.util.spec_from_file_location(f"{__package__}._{name}", folder() / f"{name}.py")
    if spec is None or spec.loader is None or not (folder() / f"{name}.py").exists():
        raise GeError(f"the installed torch_npu holds no {name}.py, which dumps are read with")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def new_graph(name: str = "") -> Any:
    """An empty ``GraphDef``."""
    return schema().GraphDef(name=name)
