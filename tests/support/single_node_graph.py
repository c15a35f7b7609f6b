"""A GE graph of one node with a kernel's arguments: tensors as inputs, sizes as constants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from graph_quant.ge.attributes import set_attribute
from graph_quant.ge.dtypes import TO_DESC
from graph_quant.ge.kernels import Kernel
from graph_quant.ge.values import Sizes, ge_dtype_name, to_tensor
from torchair.ge._ge_graph import GraphDef


class SingleNodeGraph:
    """The graph of one call of ``kernel``; ``outputs`` says which results exist."""

    def __init__(
        self, kernel: Kernel, arguments: Sequence[Any], attributes: dict[str, Any], outputs: Sequence[bool]
    ) -> None:
        self.graph = GraphDef(name=kernel.type)
        self.inputs: list[torch.Tensor] = []
        self._fed: list[tuple[str, str]] = []
        for declared, argument in zip(kernel.inputs, arguments, strict=False):
            values = {declared.name: argument}
            if declared.is_dynamic:
                values = {f"{declared.name}{index}": element for index, element in enumerate(argument or ())}
            for name, value in values.items():
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
        for index, exists in enumerate(outputs):
            node.output_desc.add(name=f"y{index}")
            if exists:
                end.input.append(f"node:{index}")
                end.input_desc.add(name=f"input{index}")

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
