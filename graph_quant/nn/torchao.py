"""``convert_torchao_``: replaces linears that torchao quantised by modules on npu operators."""

from __future__ import annotations

from typing import Any

from graph_quant.nn.checkpoints.build import build_linear
from graph_quant.nn.checkpoints.stored import Activations, CheckpointError, Stored
from graph_quant.nn.rows import check_half
from torch import Tensor, nn


def convert_torchao_(model: nn.Module) -> list[str]:
    """Replace the linears whose weights torchao's ``quantize_`` made, in place.

    The integers and scales stay as they are. int8 weights with dynamic activations become ``DynamicW8A8Linear``
    (npu_dynamic_quant, npu_quant_matmul), weight-only ones ``W8A16Linear`` or ``W4A16Linear``
    (npu_weight_quant_batchmatmul). torchao's own forward is a chain of about 20 operators, which rounds activations
    by absmax / 127.5 where npu_dynamic_quant has absmax / 127.

    Args:
        model: A model after ``torchao.quantization.quantize_``, in float16 or bfloat16.

    Returns:
        The names of the replaced modules.

    Raises:
        CheckpointError: A weight is quantised in a way that no npu operator takes; the model is then unchanged.
        ValueError: No weight is torchao's.

    Examples:
        >>> torchao.quantization.quantize_(model, Int8DynamicActivationInt8WeightConfig())
        >>> convert_torchao_(model)
        >>> torch.compile(model, backend="npu")
    """
    replaced: dict[str, nn.Module] = {}
    built: dict[nn.Module, nn.Module] = {}
    for name, module in model.named_modules(remove_duplicate=False):
        if isinstance(module, nn.Linear) and _is_torchao(module.weight):
            if module not in built:
                built[module] = _convert(name, module)
            replaced[name] = built[module]
    if not replaced:
        raise ValueError(f"convert_torchao_: {type(model).__name__} has no linear that torchao quantised")
    if "" in replaced:
        raise ValueError("convert_torchao_: model must contain the linear, got the linear itself")
    for name, module in replaced.items():
        model.set_submodule(name, module)
    return list(replaced)


def _is_torchao(weight: Tensor) -> bool:
    return type(weight).__module__.partition(".")[0] == "torchao"


def _convert(name: str, linear: nn.Linear) -> nn.Module:
    weight: Any = linear.weight
    kind = type(weight).__name__
    if kind == "Int8Tensor":
        bits, activations = 8, _int8_activations(name, weight)
    elif kind == "IntxUnpackedToInt8Tensor":
        bits, activations = _bits(name, weight), _intx_activations(name, weight)
    else:
        raise CheckpointError(f"{name}.weight: {kind} is not among Int8Tensor, IntxUnpackedToInt8Tensor")
    offset = getattr(weight, "zero_point", None)
    if offset is not None and bool(offset.any()):
        raise CheckpointError(f"{name}.weight: its zero_point must be 0, integers with an offset are not supported")
    scale = weight.scale.detach().float()
    if scale.numel() == 1:
        scale = scale.reshape(1, 1).expand(weight.shape[0], 1)
    stored = Stored(bits, weight.qdata.detach(), scale, activations, 16 if activations is Activations.FLOAT else 8)
    stored.check(name)
    dtype = check_half("convert_torchao_", f"{name}.weight", weight.dtype)
    bias = None if linear.bias is None else linear.bias.detach()
    return build_linear(name, stored, bias, dtype).train(linear.training)


def _bits(name: str, weight: Any) -> int:
    bits = {"torch.int4": 4, "torch.int8": 8}.get(str(weight.target_dtype))
    if bits is None:
        raise CheckpointError(f"{name}.weight: it must be of int4 or int8, got {weight.target_dtype}")
    return bits


def _int8_activations(name: str, weight: Any) -> Activations:
    for part in ("act_quant_scale", "act_quant_zero_point", "act_pre_scale"):
        if getattr(weight, part, None) is not None:
            raise CheckpointError(f"{name}.weight: its {part} is not supported")
    dynamic = weight.act_quant_kwargs
    if dynamic is None:
        return Activations.FLOAT
    granularity, mapping = type(dynamic.granularity).__name__, dynamic.mapping_type.name
    if granularity != "PerRow" or mapping != "SYMMETRIC":
        raise CheckpointError(
            f"{name}.weight: activations must be symmetric and by row, got {mapping.lower()} and {granularity}"
        )
    return Activations.DYNAMIC


def _intx_activations(name: str, weight: Any) -> Activations:
    if weight.activation_quantization is None:
        return Activations.FLOAT
    raise CheckpointError(
        f"{name}.weight: activations must be floats or symmetric, got {weight.activation_quantization}: "
        "npu_dynamic_quant has no offset"
    )
