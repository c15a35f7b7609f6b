"""LSTM and GRU, called as a whole on the CPU: PyTorch's composition for devices uses kernels that the CPU lacks."""

from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from .kernels import Kernel

NAMES = frozenset({"aten::gru.input", "aten::lstm.data", "aten::lstm.input", "aten::lstm_cell"})


def with_npu_dropout(op: OpOverload, whole: Kernel) -> Kernel:
    """Run `op` by `whole`; with dropout between layers run layer by layer, so that the NPU's generator is used."""
    names = [argument.name for argument in op._schema.arguments]
    implicit = torch._C.DispatchKey.CompositeImplicitAutograd
    modes_active = torch._C._len_torch_dispatch_stack

    def kernel(*args: Any) -> Any:
        if modes_active():
            return op._op_dk(implicit, *args)
        arguments = dict(zip(names, args, strict=False))
        probability = arguments.get("dropout", 0.0)
        if not probability:
            return whole(*args)
        arguments["dropout"] = 0.0
        if not arguments["train"] or arguments["num_layers"] == 1:
            return whole(*arguments.values())
        return _layer_by_layer(op, arguments, probability)

    return kernel


def _layer_by_layer(op: OpOverload, arguments: dict[str, Any], probability: float) -> tuple[Tensor, ...]:
    layers, directions = arguments["num_layers"], 2 if arguments["bidirectional"] else 1
    params, state, first = arguments["params"], arguments["hx"], next(iter(arguments))
    width = len(params) // layers
    arguments["num_layers"] = 1
    states = []
    for layer in range(layers):
        rows = slice(layer * directions, (layer + 1) * directions)
        arguments["params"] = params[layer * width : (layer + 1) * width]
        arguments["hx"] = state[rows] if isinstance(state, Tensor) else [part[rows] for part in state]
        output, *final = op(*arguments.values())
        states.append(final)
        arguments[first] = output if layer == layers - 1 else torch.dropout(output, probability, True)
    return (arguments[first], *(torch.cat(parts) for parts in zip(*states, strict=True)))
