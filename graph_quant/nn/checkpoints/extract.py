"""Reads the stored form of a weight back from a quantised module: the inverse of ``build_linear``."""

from __future__ import annotations

import torch
from graph_quant import int4
from graph_quant.nn import schemes
from graph_quant.nn.checkpoints.stored import Activations, CheckpointError, Stored
from graph_quant.nn.dynamic_w8a8 import DynamicW8A8Linear
from graph_quant.nn.experts.base import QuantisedExperts
from graph_quant.nn.narrow_linears import BlockFP8Linear, HiF8Linear, MxLinear
from graph_quant.nn.static_w8a8 import StaticW8A8Linear
from graph_quant.nn.w4a4 import W4A4Linear
from graph_quant.nn.w4a8 import W4A8Linear
from graph_quant.nn.weight_only import W4A16Linear, WeightOnlyLinear
from torch import Tensor, nn

LINEARS = (DynamicW8A8Linear, StaticW8A8Linear, W4A4Linear, W4A8Linear, WeightOnlyLinear)
# The formats of checkpoints have no fields for these.
NARROW_LINEARS = (MxLinear, BlockFP8Linear, HiF8Linear)


def is_quantised(module: nn.Module) -> bool:
    """Whether ``module`` is a quantised linear or quantised experts of this package."""
    return isinstance(module, (*LINEARS, *NARROW_LINEARS, QuantisedExperts))


def extract(name: str, module: nn.Module) -> tuple[Stored, Tensor | None]:
    """Return the weight of a quantised linear as a checkpoint stores it, and its float bias."""
    if isinstance(module, DynamicW8A8Linear):
        if module.smooth is not None:
            raise CheckpointError(f"{name}: smoothing scales are not part of the format; quantise it without smooth")
        return Stored(8, module.weight, module.scale.unsqueeze(1), Activations.DYNAMIC, 8), module.bias
    if isinstance(module, W4A4Linear):
        return (
            Stored(4, int4.unpack(module.weight), module.scale.unsqueeze(1), Activations.DYNAMIC, 4),
            module.bias,
        )
    if isinstance(module, W4A8Linear):
        integers = int4.unpack(module.weight[0]).t().contiguous()
        scale = (module.scale[0] & 0xFFFFFFFF).to(torch.uint32).view(torch.float32).t().contiguous()
        stored = Stored(4, integers, scale, Activations.DYNAMIC, 8, assist=module.assist[0])
        return stored, module.bias
    if isinstance(module, WeightOnlyLinear):
        return _weight_only(name, module), module.bias
    if isinstance(module, StaticW8A8Linear):
        return _static(name, module), None
    raise CheckpointError(f"{name}: {type(module).__name__} cannot be saved; save_quantised takes quantised linears")


def has_derived_assist(stored: Stored) -> bool:
    """Whether the correction term follows from the weight, so that it need not be stored."""
    derived = schemes.split_integers(stored.integers, stored.scale).assist
    return stored.assist is None or torch.equal(derived, stored.assist)


def _weight_only(name: str, module: WeightOnlyLinear) -> Stored:
    is_packed = isinstance(module, W4A16Linear)
    integers = (int4.unpack(module.weight) if is_packed else module.weight).t().contiguous()
    scale = module.scale.float()
    scale = scale.unsqueeze(1) if scale.dim() == 1 else scale.t().contiguous()
    if integers.size(1) % scale.size(1):
        raise CheckpointError(f"{name}: group_size must divide {integers.size(1)} input channels to be stored")
    return Stored(4 if is_packed else 8, integers, scale, Activations.FLOAT)


def _static(name: str, module: StaticW8A8Linear) -> Stored:
    if module.multiplier.numel() != 1:
        raise CheckpointError(f"{name}: smoothing scales are not part of the format; quantise it without smooth")
    input_scale = module.multiplier.float().reciprocal()
    if not torch.equal(input_scale.reciprocal().to(module.multiplier.dtype), module.multiplier):
        raise CheckpointError(f"{name}: its activation scale has no exact reciprocal in float32")
    return Stored(
        8,
        module.weight.t().contiguous(),
        (module.scale / input_scale).unsqueeze(1),
        Activations.STATIC,
        8,
        input_scale,
        module.zero_point.float(),
        module.scale,
        module.bias,
    )
