"""LSTM and GRU, which PyTorch composes on devices of kernels that the CPU has not: recorded as a whole on the CPU."""

from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from .kernels import Kernel

NAMES = frozenset({"aten::gru.input", "aten::lstm.data", "aten::lstm.input", "aten::lstm_cell"})


def without_dropout(op: OpOverload, whole: Kernel) -> Kernel:
    """Run `op` by `whole`, layer by layer where values are dropped between layers: the NPU draws which."""
    names = [argument.name for argument in op._schema.arguments]
    implicit = torch._C.DispatchKey.CompositeImplicitAutograd
    modes_active = torch._C._len_torch_dispatch_stack

    def kernel(*args: Any) -> Any:
        if modes_active():
            return op._op_dk(implicit, *args)
        given = dict(zip(names, args, strict=False))
        probability = given.get("dropout", 0.0)
        if not probability:
            return whole(*args)
        given["dropout"] = 0.0
        if not given["train"] or given["num_layers"] == 1:
            return whole(*given.values())
        return _layer_by_layer(op, given, probability)

    return kernel


def _layer_by_layer(op: OpOverload, given: dict[str, Any], probability: float) -> tuple[Tensor, ...]:
    layers, directions = given["num_layers"], 2 if given["bidirectional"] else 1
    params, state, first = given["params"], given["hx"], next(iter(given))
    width = len(params) // layers
    given["num_layers"] = 1
    states = []
    for layer in range(layers):
        rows = slice(layer * directions, (layer + 1) * directions)
        given["params"] = params[layer * width : (layer + 1) * width]
        given["hx"] = state[rows] if isinstance(state, Tensor) else [part[rows] for part in state]
        output, *final = op(*given.values())
        states.append(final)
        given[first] = output if layer == layers - 1 else torch.dropout(output, probability, True)
    return (given[first], *(torch.cat(parts) for parts in zip(*states, strict=True)))
