"""Builds GE graphs node by node, for cases that no model shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from graph_quant.ge import dtypes
from graph_quant.ge.attributes import set_attribute
from graph_quant.ge.values import ge_dtype_name
from graph_quant.host.engine import import_graph
from torchair._ge_concrete_graph.ge_ir_pb2 import GraphDef

OPTIONAL = ""


class GraphBuilder:
    """A graph that is built node by node; adding a node returns the name of its first output."""

    def __init__(self) -> None:
        self.graph = GraphDef(name="built")
        self.inputs: list[str] = []

    def data(self, *dims: int, dtype: str = "float32") -> str:
        """Add an input; -1 is a dynamic size."""
        op = self._op("Data", [], 1)
        op.attr["index"].i = len(self.inputs)
        op.output_desc[0].dtype = dtypes.TO_DESC[dtype]
        op.output_desc[0].shape.dim.extend(dims)
        op.output_desc[0].device_type = "NPU"
        self.inputs.append(f"{op.name}:0")
        return self.inputs[-1]

    def const(self, value: Any, dtype: torch.dtype = torch.int64) -> str:
        """Add a constant."""
        tensor = torch.as_tensor(value, dtype=dtype)
        op = self._op("Const", [], 1)
        attribute = op.attr["value"].t
        attribute.desc.dtype = dtypes.TO_DESC[ge_dtype_name(dtype)]
        attribute.desc.shape.dim.extend(tensor.shape)
        attribute.data = tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        op.output_desc[0].CopyFrom(attribute.desc)
        return f"{op.name}:0"

    def op(self, kind: str, fed: dict[str, str], *, outputs: Sequence[str] = ("y",), **attributes: Any) -> str:
        """Add a node with its inputs by name."""
        op = self._op(kind, list(fed.values()), len(outputs))
        for name in fed:
            op.input_desc.add().name = name
        for desc, name in zip(op.output_desc, outputs, strict=True):
            desc.name = name
        for name, value in attributes.items():
            is_dtype = name in ("dst_type", "type", "dtype") and isinstance(value, str)
            set_attribute(op, name, "", dtypes.TO_ATTRIBUTE[value] if is_dtype else value)
        return f"{op.name}:0"

    def control(self, before: str, after: str) -> None:
        """Add a control edge."""
        self.node(after).input.append(f"{before.rpartition(':')[0]}:-1")

    def output(self, *results: str) -> GraphDef:
        """Add the outputs, and return the graph."""
        op = self._op("NetOutput", list(results), 0)
        for index in range(len(results)):
            op.input_desc.add().name = f"input{index}"
        return self.graph

    def node(self, reference: str) -> Any:
        return next(op for op in self.graph.op if op.name == reference.rpartition(":")[0])

    def _op(self, kind: str, inputs: list[str], outputs: int) -> Any:
        op = self.graph.op.add()
        op.name, op.type = f"{kind.lower()}{len(self.graph.op)}", kind
        op.input.extend(inputs)
        for _ in range(outputs):
            op.output_desc.add()
        return op


def types(graph: Any) -> list[str]:
    """Return the types of the nodes other than inputs, outputs and constants."""
    return [op.type for op in graph.op if op.type not in ("Data", "NetOutput", "Const")]


def results(graph: Any, *inputs: torch.Tensor) -> Sequence[torch.Tensor]:
    """Return the results of a graph."""
    return import_graph(graph)(*(tensor.clone() for tensor in inputs))
