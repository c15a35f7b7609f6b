"""A GE graph of one node, fed what a kernel is called with: tensors as inputs of the graph, sizes as constants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from graph_quant.ge.attributes import set_attribute
from graph_quant.ge.dtypes import TO_DESC
from graph_quant.ge.kernels import Kernel
from graph_quant.ge.values import Sizes, ge_dtype_name, to_tensor
from torchair.ge._ge_graph import GraphDef


class OneNode:
    """The graph of one call of ``kernel``; ``outputs`` says which results there are."""

    def __init__(
        self, kernel: Kernel, arguments: Sequence[Any], attributes: dict[str, Any], outputs: Sequence[bool]
    ) -> None:
        self.graph = GraphDef(name=kernel.type)
        self.inputs: list[torch.Tensor] = []
        self._fed: list[tuple[str, str]] = []
        for declared, argument in zip(kernel.inputs, arguments, strict=False):
            given = {declared.name: argument}
            if declared.is_dynamic:
                given = {f"{declared.name}{place}": each for place, each in enumerate(argument or ())}
            for name, value in given.items():
                if value is not None:
                    self._fed.append((name, self._feed(value)))
        node = self.graph.op.add(name="node", type=kernel.type)
        for name, source in self._fed:
            node.input.append(f"{source}:0")
            node.input_desc.add(name=name)
        names = {parameter: name for name, parameter in kernel.attributes}
        for parameter, value in attributes.items():
            if value is not None:
                set_attribute(node, names[parameter], "", list(value) if isinstance(value, tuple) else value)
        end = self.graph.op.add(name="end", type="NetOutput")
        for place, there in enumerate(outputs):
            node.output_desc.add(name=f"y{place}")
            if there:
                end.input.append(f"node:{place}")
                end.input_desc.add(name=f"input{place}")

    def _feed(self, value: Any) -> str:
        name = f"fed{len(self._fed)}"
        if isinstance(value, Sizes):
            op = self.graph.op.add(name=name, type="Const")
            self._describe(op.attr["value"].t.desc, constant := to_tensor(value))
            op.attr["value"].t.data = constant.reshape(-1).view(torch.uint8).numpy().tobytes()
            self._describe(op.output_desc.add(name="y"), constant)
            return name
        op = self.graph.op.add(name=name, type="Data")
        op.attr["index"].i = len(self.inputs)
        desc = op.output_desc.add(name="y", device_type="NPU")
        self._describe(desc, value)
        self.inputs.append(value)
        return name

    @staticmethod
    def _describe(desc: Any, tensor: torch.Tensor) -> None:
        desc.dtype = TO_DESC[ge_dtype_name(tensor.dtype)]
        desc.shape.dim.extend(tensor.shape)
