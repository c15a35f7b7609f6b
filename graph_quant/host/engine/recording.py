"""Runs an imported graph node by node and records what its GE nodes compute: for ``verify`` and for ``replay``."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from torch import Tensor, fx

from ...ge import Output, Sizes, to_tensor
from .errors import node_error


class RecordingInterpreter(fx.Interpreter):
    """Records outputs of GE nodes in ``recorded``: those in ``wanted``, or all where it is None."""

    def __init__(self, module: fx.GraphModule, wanted: Container[Output] | None = None) -> None:
        super().__init__(module)
        self.recorded: dict[Output, Tensor] = {}
        self._wanted = wanted

    def run_node(self, n: fx.Node) -> Any:
        node = n.meta.get("ge")
        try:
            result = super().run_node(n)
        except Exception as error:
            if node is None:
                raise
            raise node_error(node, error) from error
        if node is not None and "kernel" in n.meta:
            results = result if isinstance(result, list) or type(result) is tuple else [result]
            for index, value in enumerate(results):
                output = Output(node.name, index)
                if self._wanted is None or output in self._wanted:
                    # A copy, because a later node may write into the same memory.
                    tensor = to_tensor(value) if isinstance(value, Sizes) else value
                    self.recorded[output] = tensor.detach().clone()
        return result
