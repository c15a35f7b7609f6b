"""GE graphs as TorchAir builds them for a function, read back from its own text dumps."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torchair
from google.protobuf import text_format
from graph_quant import passes
from torchair._ge_concrete_graph.ge_ir_pb2 import DataType, GraphDef
from torchair.configs.compiler_config import CompilerConfig

INTERFACE = ("Data", "NetOutput")


def lower(function: Callable[..., Any], *args: Any, dynamic: bool | None = None, through: str = passes.OFF) -> GraphDef:
    """The GE graph of `function`, as converters make it or `through` passes.

    A graph that was built counts, whether or not it could then be run.
    """
    torch._dynamo.reset()
    with tempfile.TemporaryDirectory() as folder, passes.use(through):
        config = CompilerConfig()
        config.debug.graph_dump.type = "txt"
        config.debug.graph_dump.path = folder
        backend = torchair.get_npu_backend(compiler_config=config)
        try:
            torch.compile(function, backend=backend, dynamic=dynamic, fullgraph=True)(*args)
        except Exception:
            if not list(Path(folder).glob("dynamo_optimized_graph_*")):
                raise
        (dump,) = Path(folder).glob("dynamo_optimized_graph_*")
        graph = GraphDef()
        text_format.Parse(dump.read_text(), graph)
        return graph


def nodes(graph: GraphDef) -> list[Any]:
    """The nodes that compute."""
    return [op for op in graph.op if op.type not in INTERFACE]


def types(graph: GraphDef) -> list[str]:
    return [op.type for op in nodes(graph)]


def node(graph: GraphDef, op_type: str) -> Any:
    (match,) = [op for op in graph.op if op.type == op_type]
    return match


def inputs(op: Any) -> list[str]:
    """The dtypes of a node's inputs."""
    return [DataType.Name(desc.dtype) for desc in op.input_desc]


def outputs(op: Any) -> list[str]:
    """The dtypes of a node's outputs."""
    return [DataType.Name(desc.dtype) for desc in op.output_desc]


def text(graph: GraphDef) -> str:
    """A graph to read in review: a line a node, dtypes beside results, attributes that TorchAir does not own."""
    return "".join(f"{_line(op)}\n" for op in graph.op)


def _line(op: Any) -> str:
    arguments = ", ".join(name.removesuffix(":0") or "-" for name in op.input)
    if op.type == "Data":
        shape = list(op.output_desc[0].shape.dim)
        return f"{op.name}: {outputs(op)[0]} {shape}"
    if op.type == "NetOutput":
        return f"return {arguments}: {', '.join(inputs(op))}"
    if op.type == "Const":
        return f"{op.name} = {op.attr['_readable_value'].s.decode()}: {outputs(op)[0]}"
    attributes = "".join(f", {name}={_value(op.attr[name])}" for name in sorted(op.attr) if not name.startswith("_"))
    return f"{op.name} = {op.type}({arguments}{attributes}): {', '.join(outputs(op))}"


def _value(attribute: Any) -> object:
    kind = attribute.WhichOneof("value")
    value = getattr(attribute, kind)
    if kind == "s":
        return repr(value.decode())
    return list(value.i) if kind == "list" else value
