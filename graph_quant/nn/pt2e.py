"""``convert_pt2e_``: replaces the linears of a model that PT2E quantised by modules on npu operators."""

from __future__ import annotations

from typing import Any

import torch
from graph_quant.nn.checkpoints.build import build_linear
from graph_quant.nn.checkpoints.stored import Activations, CheckpointError, Stored
from graph_quant.nn.rows import check_half
from torch import Tensor, nn
from torch.fx import GraphModule, Node

_DOMAIN = "quantized_decomposed"
_CHANNELS = f"{_DOMAIN}::dequantize_per_channel"
_TENSOR = f"{_DOMAIN}::dequantize_per_tensor"
_LINEAR = "aten::linear"
# The ranges of integers that activations may have, and the zero of int8 in them.
_RANGES = {(-128, 127): 0, (0, 255): 128}


def convert_pt2e_(model: nn.Module) -> list[str]:
    """Replace the linears of a model after torchao's ``convert_pt2e``, in place.

    The integers and scales stay as they are. Linears with static activations become ``StaticW8A8Linear``
    (npu_quantize, npu_quant_matmul), with dynamic ones ``DynamicW8A8Linear`` (npu_dynamic_quant, npu_quant_matmul:
    a scale for each row, where PT2E has one for the tensor), and weight-only ones ``W8A16Linear``
    (npu_weight_quant_batchmatmul). What a quantiser put between other operators is removed: they compute in half
    precision.

    Args:
        model: The ``GraphModule`` of ``convert_pt2e``, of a model in float16 or bfloat16.

    Returns:
        The names of the new modules.

    Raises:
        CheckpointError: Something is quantised in a way that no npu operator takes; the model is then unchanged.
        ValueError: The model is no such ``GraphModule``, or PT2E quantised nothing in it.

    Examples:
        >>> model = convert_pt2e(prepared)
        >>> convert_pt2e_(model)
        >>> torch.compile(model, backend="npu")
    """
    if not isinstance(model, GraphModule):
        raise ValueError(f"convert_pt2e_: model must be a GraphModule of convert_pt2e, got {type(model).__name__}")
    dequantised = [node for node in model.graph.nodes if _name(node) in (_CHANNELS, _TENSOR)]
    linears = {
        reader: node
        for node in dequantised
        if _is_weight(node)
        for reader in node.users
        if _name(reader) == _LINEAR and reader.args[1] is node
    }
    if not linears:
        raise ValueError("convert_pt2e_: PT2E quantised no linear of this model")
    for node in dequantised:
        for reader in node.users if _is_weight(node) else ():
            if reader not in linears:
                raise CheckpointError(f"{reader.name}: no npu operator takes quantised weights of {_name(reader)}")
    built = {linear: _build(model, linear, weight) for linear, weight in linears.items()}
    names = [_insert(model, linear, module) for linear, module in built.items()]
    for node in dequantised:
        if not _is_weight(node) and (source := _quantised(node)) is not None:
            node.replace_all_uses_with(source)
    _remove_unused(model)
    return names


def _name(node: Any) -> str:
    """The operator of a node, without its overload."""
    schema = getattr(getattr(node, "target", None), "_schema", None)
    return "" if schema is None else str(schema.name)


def _is_weight(node: Node) -> bool:
    source = node.args[0]
    return isinstance(source, Node) and source.op == "get_attr"


def _quantised(node: Any) -> Node | None:
    """What was quantised before this dequantisation."""
    quantise = node.args[0] if isinstance(node, Node) and node.args else None
    if not isinstance(quantise, Node) or not _name(quantise).startswith(f"{_DOMAIN}::quantize_per"):
        return None
    source = quantise.args[0]
    return source if isinstance(source, Node) else None


def _attribute(model: GraphModule, node: Any) -> Tensor:
    value: Any = model
    for part in str(node.target).split("."):
        value = getattr(value, part)
    return value.detach()  # type: ignore[no-any-return]


def _build(model: GraphModule, linear: Node, weight: Node) -> nn.Module:
    integers = _attribute(model, weight.args[0])
    if _name(weight) == _CHANNELS:
        scale, offset = (_attribute(model, weight.args[index]) for index in (1, 2))
        axis = weight.args[3]
    else:
        scale, offset = (torch.tensor([weight.args[index]], device=integers.device) for index in (1, 2))
        axis = 0
    if integers.dtype != torch.int8 or axis != 0 or bool(offset.any()):
        raise CheckpointError(
            f"{linear.name}: its weight must be symmetric int8 with a scale for each output, "
            f"got {integers.dtype}, axis {axis} and zero points up to {int(offset.abs().max())}"
        )
    x: Any = linear.args[0]
    source = _quantised(x)
    activations, parts = Activations.FLOAT, dict[str, Tensor]()
    if source is not None:
        activations, parts = _activations(linear, x, integers.device)
    dtype = check_half("convert_pt2e_", linear.name, (source or x).meta["val"].dtype)
    stored = Stored(
        8,
        integers,
        scale.float().reshape(-1, 1).expand(integers.shape[0], 1).contiguous(),
        activations,
        16 if activations is Activations.FLOAT else 8,
        **parts,
    )
    stored.check(linear.name)
    bias = _attribute(model, linear.args[2]) if len(linear.args) > 2 and linear.args[2] is not None else None
    return build_linear(linear.name, stored, bias, dtype)


def _activations(linear: Node, x: Node, device: torch.device) -> tuple[Activations, dict[str, Tensor]]:
    scale, offset, low, high = x.args[1:5]
    zero = _RANGES.get((low, high))  # type: ignore[arg-type]
    if zero is None or _name(x) != _TENSOR:
        raise CheckpointError(f"{linear.name}: activations must be of 8 bits with one scale, got [{low}, {high}]")
    if isinstance(scale, Node):
        return Activations.DYNAMIC, {}
    values = {"input_scale": float(scale), "input_offset": float(offset) - zero}  # type: ignore[arg-type]
    return Activations.STATIC, {name: torch.tensor([value], device=device) for name, value in values.items()}


def _insert(model: GraphModule, linear: Node, module: nn.Module) -> str:
    stack = list((linear.meta.get("nn_module_stack") or {}).values())
    path = stack[-1][0] if stack else ""
    parts = [part for part in str(path).replace("L['self']", "").split(".") if part.isidentifier() or part.isdigit()]
    name = f"{'_'.join(parts) or linear.name}_quantised"
    while hasattr(model, name):
        name += "_"
    model.add_submodule(name, module)
    x: Any = linear.args[0]
    with model.graph.inserting_before(linear):
        new = model.graph.call_module(name, (_quantised(x) or x,))
    new.meta = dict(linear.meta)
    linear.replace_all_uses_with(new)
    model.graph.erase_node(linear)
    return name


def _remove_unused(model: GraphModule) -> None:
    model.graph.eliminate_dead_code()
    read = {str(node.target) for node in model.graph.nodes if node.op == "get_attr"}
    for name in [name for name, _ in (*model.named_buffers(), *model.named_parameters())]:
        owner, _, attribute = name.rpartition(".")
        is_new = any(isinstance(node.target, str) and name.startswith(f"{node.target}.") for node in model.graph.nodes)
        if name not in read and not is_new:
            delattr(model.get_submodule(owner), attribute)
    model.recompile()
