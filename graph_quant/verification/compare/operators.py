"""Properties of the operators that FX nodes call."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch._ops import HigherOrderOperator, OpOverload

_CPU = torch.device("cpu")
# Namespaces of PyTorch's and TorchAir's collectives, which work on device memory alone.
_COLLECTIVES = ("_c10d_functional", "npu_define")
_GROUPS = ("hcom", "group_ep", "group_name")
# Arguments of attention, with the value that means no dropout.
_WITHOUT_DROPOUT = {"keep_prob": 1, "dropout_p": 0}
_ATEN = torch.ops.aten
_UNINITIALISED = frozenset(
    (_ATEN.empty, _ATEN.empty_like, _ATEN.empty_permuted, _ATEN.empty_strided, _ATEN.new_empty, _ATEN.new_empty_strided)
)


def name_of(node: fx.Node) -> str:
    """The operator with its overload, as FX prints it, or the name of a function."""
    return str(node.target) if isinstance(node.target, OpOverload | str) else getattr(node.target, "__name__", "?")


def is_operator(node: fx.Node) -> bool:
    """Whether it calls an operator; getitem and arithmetic on sizes do not count."""
    return node.op == "call_function" and isinstance(node.target, OpOverload)


def is_random(node: fx.Node) -> bool:
    """Whether it uses the RNG; attention without dropout does not."""
    if not isinstance(node.target, OpOverload) or torch.Tag.nondeterministic_seeded not in node.target.tags:
        return False
    for index, argument in enumerate(node.target._schema.arguments):
        if argument.name in _WITHOUT_DROPOUT:
            value = (
                node.args[index] if index < len(node.args) else node.kwargs.get(argument.name, argument.default_value)
            )
            return not isinstance(value, int | float) or value != _WITHOUT_DROPOUT[argument.name]
    return True


def is_uninitialised(node: fx.Node) -> bool:
    """Whether its result is uninitialised memory."""
    return isinstance(node.target, OpOverload) and node.target.overloadpacket in _UNINITIALISED


def writes(node: fx.Node) -> bool:
    """Whether it may write to its inputs."""
    if isinstance(node.target, OpOverload):
        return node.target._schema.is_mutable
    return isinstance(node.target, HigherOrderOperator)


def communicates(node: fx.Node) -> bool:
    """Whether it is a collective, which every rank must call equally often."""
    if not isinstance(node.target, OpOverload):
        return False
    names = {argument.name for argument in node.target._schema.arguments}
    return node.target.namespace in _COLLECTIVES or not names.isdisjoint(_GROUPS)


def is_view(node: fx.Node) -> bool:
    """Whether its result is a view of its input."""
    return isinstance(node.target, OpOverload) and node.target.is_view


def compute(node: fx.Node, args: Any, kwargs: Any) -> Any:
    """Call it on the CPU, whatever device it names; collectives run on the device."""
    assert callable(node.target)
    if isinstance(node.target, OpOverload) and node.target.namespace in _COLLECTIVES:
        return _run_collective(node.target, args, kwargs)
    args, kwargs = fx.node.map_aggregate((args, kwargs), _to_cpu)  # type: ignore[misc]
    return node.target(*args, **kwargs)


def _run_collective(target: OpOverload, args: Any, kwargs: Any) -> Any:
    args, kwargs = fx.node.map_aggregate((args, kwargs), _to_npu)  # type: ignore[misc]
    return fx.node.map_aggregate(target(*args, **kwargs), _wait)  # type: ignore[arg-type]


def _to_npu(argument: Any) -> Any:
    return argument.to("npu") if isinstance(argument, torch.Tensor) else argument


def _wait(result: Any) -> Any:
    return torch.ops._c10d_functional.wait_tensor(result).cpu() if isinstance(result, torch.Tensor) else result


def _to_cpu(argument: Any) -> Any:
    return _CPU if isinstance(argument, torch.device) else argument
