"""Activations with a GE node: TorchAir has no converter for them, or passes the node an unsupported dtype."""

from __future__ import annotations

from typing import Any

import torch
from graph_quant.converters.decompositions import decomposes
from graph_quant.converters.lowering import computed, converts, in_type
from torch._decomp import decomposition_table
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import Tensor

aten = torch.ops.aten
_DECOMPOSED_SOFTPLUS = decomposition_table[aten.softplus.default]


@decomposes(aten.softplus.default)
def decompose_symbolic_softplus(x: torch.Tensor, beta: Any = 1, threshold: Any = 20) -> Any:
    """Decompose where a scalar is symbolic: an attribute of the node has to be a constant."""
    is_constant = not any(isinstance(number, torch.SymFloat) for number in (beta, threshold))
    return NotImplemented if is_constant else _DECOMPOSED_SOFTPLUS(x, beta, threshold)


@converts(aten.softplus.default)
def softplus(x: Tensor, beta: float = 1, threshold: float = 20, meta_outputs: Any = None) -> Tensor:
    """SoftplusV2."""
    return computed("SoftplusV2", meta_outputs.dtype, x, beta=float(beta), threshold=float(threshold))


@converts(aten.mish.default)
def mish(x: Tensor, meta_outputs: Any = None) -> Tensor:
    """Mish."""
    return computed("Mish", meta_outputs.dtype, x)


@converts(aten.log_sigmoid_forward.default)
def log_sigmoid(x: Tensor, meta_outputs: Any = None) -> tuple[Tensor, Tensor]:
    """LogSigmoid. The buffer that eager mode keeps for the gradient is not used."""
    return computed("LogSigmoid", meta_outputs[0].dtype, x), ge.Identity(x)


@converts(aten.log_sigmoid_backward.default)
def log_sigmoid_backward(grad: Tensor, x: Tensor, buffer: Tensor, meta_outputs: Any = None) -> Tensor:  # noqa: ARG001
    """LogSigmoidGrad."""
    return computed("LogSigmoidGrad", meta_outputs.dtype, grad, x)


@converts(aten.hardsigmoid.default)
def hardsigmoid(x: Tensor, meta_outputs: Any = None) -> Tensor:
    """HardSigmoid."""
    return computed("HardSigmoid", meta_outputs.dtype, x)


@converts(aten.exp2.default)
def exp2(x: Tensor, meta_outputs: Any = None) -> Tensor:
    """Exp to the base of 2."""
    return ge.Exp(in_type(meta_outputs.dtype, x), base=2.0)


@converts(aten.erfc.default)
def erfc(x: Tensor, meta_outputs: Any = None) -> Tensor:
    """Erfc."""
    return ge.Erfc(in_type(meta_outputs.dtype, x))
