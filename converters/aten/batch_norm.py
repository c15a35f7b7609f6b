"""Training BatchNorm: BatchNormV3 returns the running statistics before those of the batch, ATen after them.

TorchAir returns the five outputs in the order of BatchNormV3, so that running_mean becomes the mean of the batch. It
passes the saved 1 / sqrt(variance + eps) to gradient nodes that expect the variance; only those of Ascend 950 do not.
"""

from __future__ import annotations

from typing import Any

import torch
from graph_quant.chip import is_950
from graph_quant.converters import UPSTREAM
from graph_quant.converters.decompositions import decomposes
from graph_quant.converters.lowering import converts
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import DataType, Tensor

_FORWARD = torch.ops.aten._native_batch_norm_legit_functional.default
_INFERENCE = torch.ops.aten._native_batch_norm_legit_no_training.default
_BACKWARD = torch.ops.aten.native_batch_norm_backward.default


@decomposes(_FORWARD)
def decompose_inference(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    running_mean: torch.Tensor,
    running_var: torch.Tensor,
    training: bool,
    momentum: float,
    eps: float,
) -> Any:
    """Decompose calls without training, which TorchAir does not lower: the running statistics do not change."""
    if training:
        return NotImplemented
    results = _INFERENCE(x, weight, bias, running_mean, running_var, momentum, eps)
    return *results, running_mean.clone(), running_var.clone()


@decomposes(torch.ops.aten._native_batch_norm_legit.no_stats)
def decompose_no_stats(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> Any:
    """Decompose with temporary running statistics: TorchAir lowers this overload on Ascend 950 alone."""
    mean, variance = x.new_zeros(x.size(1)), x.new_ones(x.size(1))
    return _FORWARD(x, weight, bias, mean, variance, training, momentum, eps)[:3]


@converts(_FORWARD)
def batch_norm(*args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
    """TorchAir's nodes, with the outputs in ATen's order."""
    output, running_mean, running_var, mean, rstd = UPSTREAM[_FORWARD](*args, **kwargs)
    return output, mean, rstd, running_mean, running_var


@converts(_BACKWARD)
def batch_norm_backward(*args: Any, meta_outputs: Any = None) -> Any:
    """TorchAir's nodes, with the variance of the batch as input."""
    *tensors, save_invstd, train, eps, output_mask = args
    if train and not is_950():
        rstd = ge.Cast(save_invstd, dst_type=DataType.DT_FLOAT)
        save_invstd = ge.Sub(ge.Reciprocal(ge.Square(rstd)), ge.Cast(eps, dst_type=DataType.DT_FLOAT))
    return UPSTREAM[_BACKWARD](*tensors, save_invstd, train, eps, output_mask, meta_outputs=meta_outputs)
